"""The paper's data sets: which of them are here, where they come from, and as which rows.

Breast cancer comes with scikit-learn; the others are looked for in the folder that ``--data`` names, then among what
``svmsieve datasets fetch`` has downloaded. Of url, kdd-a and kdd-b there are generated stand-ins of the same shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import scipy.sparse as sp

import pipeline
from pipeline.data.cache import cache_directory
from pipeline.data.registry.registry import RegistryEntry, load_registry
from tests.bench.kernel_sets import bundled
from tests.bench.paper.exhibit import PRINTED
from tests.bench.references import load_set, to_unit_range

Matrix = Any  # dense, or SciPy's CSR
DENSE = 0.3  # the share of nonzeros above which rows are held dense


class MissingError(Exception):
    """A set that is not here; the text says what to do."""


@dataclass(frozen=True)
class PaperSet:
    """A set as it is here: rows and labels; ``said`` is what somebody who compares it with the paper's must know."""

    key: str
    name: str
    x: Matrix
    y: np.ndarray
    said: str

    @property
    def n(self) -> int:
        return self.y.size

    @property
    def values(self) -> int:
        """How many values there are that are not 0 for sure."""
        return int(self.x.nnz) if sp.issparse(self.x) else int(self.x.size)

    @property
    def title(self) -> str:
        """What the page calls it."""
        return titled(self.key, self.name)


def titled(key: str, name: str) -> str:
    """Return how a set is called: sets of figure 6 alone have no number."""
    return name if key == name else f"{key} {name}"


class Sets:
    """Finds sets, and keeps those that were asked for; ``folder`` may not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, PaperSet | MissingError] = {}

    def find(self, key: str) -> PaperSet:
        """Return a set, or raise MissingError."""
        if key not in self._known:
            try:
                self._known[key] = self._load(key)
            except MissingError as missing:
                self._known[key] = missing
        found = self._known[key]
        if isinstance(found, MissingError):
            raise found
        return found

    def those_here(self, keys: Iterator[str] | list[str], missing: list[str]) -> Iterator[PaperSet]:
        """Yield the sets that are here, and say of the others what is missing."""
        for key in keys:
            try:
                yield self.find(key)
            except MissingError as error:
                missing.append(str(error))

    def _load(self, key: str) -> PaperSet:
        printed = PRINTED["table2"][key]
        x, y, source = self._read(key, printed)
        if printed.get("scaled") and source != "fetched":
            rows, how = to_unit_range(x), "features scaled to [-1, 1]"
        else:
            rows, how = _held(x), "as in the source"
        said = [{"bundled": "comes with scikit-learn", "fetched": "downloaded"}.get(source, f"from {source}"), how]
        if note := printed.get("note"):
            said.append(note)
        return PaperSet(key, printed["name"], rows, y, "; ".join(said))

    def _read(self, key: str, printed: dict[str, Any]) -> tuple[sp.csr_array, np.ndarray, str]:
        if printed.get("bundled"):
            return *bundled(), "bundled"
        stem = printed.get("file", "")
        for suffix in (".npz", ".svm.gz"):
            if stem and (self.folder / f"{stem}{suffix}").is_file():
                return *load_set(stem, self.folder), f"{stem}{suffix}"
        entry = _entry(key)
        if entry is not None and _is_fetched(entry):
            return *_rows(entry.name), "fetched"
        what = f"{titled(key, printed['name'])} ({printed['n']:,} x {printed['d']:,}) is not here"
        cure = f"`svmsieve datasets fetch {entry.name}` gets it" if entry and entry.url else "we know no address of it"
        wanted = f", {stem}.svm.gz or {stem}.npz in the folder of --data has it" if stem else ""
        raise MissingError(f"{what}: {cure}{wanted}.")


def _held(x: sp.csr_array) -> Matrix:
    """Return rows as it is quicker to go through them."""
    if x.nnz > DENSE * x.shape[0] * x.shape[1]:
        return x.toarray()
    x.indices, x.indptr = x.indices.astype(np.int32), x.indptr.astype(np.int32)  # as rows are held on the path
    return x


def _entry(key: str) -> RegistryEntry | None:
    """Return the registry's entry of one of the paper's sets."""
    entries = load_registry().values()
    return next((each for each in entries if key in (each.paper, each.name.upper()) and each.kind == "download"), None)


def _is_fetched(entry: RegistryEntry) -> bool:
    return bool(entry.url) and (cache_directory() / PurePosixPath(urlsplit(entry.url).path).name).is_file()


def _rows(name: str) -> tuple[sp.csr_array, np.ndarray]:
    """Return the rows and labels of a set that the registry knows how to read."""
    parts = [shard.load() for shard in pipeline.open_dataset(name).shards]
    x = sp.vstack([sp.csr_array(part.csr(), dtype=np.float64) for part in parts], format="csr")
    return sp.csr_array(x), np.concatenate([part.labels for part in parts]).astype(np.float64)
