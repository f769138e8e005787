"""Data sets by name: what ``datasets.yaml`` says about them, checked before anything relies on it.

The problem: a name such as ``gisette`` must lead to an address, a format and a shape, and a typing error in a
hand-edited file must be reported as one line with file, line, entry and field, not as a traceback hours later.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.errors import RegistryError
from pipeline.yaml_values import brief, label, one_of, whole

if TYPE_CHECKING:
    from pipeline.yaml_lines import Section

KINDS = ("bundled", "download", "synthetic")
SCHEMES = ("http", "https", "file")
TRANSFORMS = ("standardise",)
BUNDLED = ("breast_cancer", "digits", "iris", "wine")
VARIABLE = "SVMSIEVE_DATASETS"
EXAMPLE = "write a mapping `datasets:` of names to entries, as in the datasets.yaml of svmsieve"


@dataclass(frozen=True)
class RegistryEntry:
    """One data set of the registry; an empty text or None means that the file does not say."""

    name: str
    kind: str
    title: str = ""
    paper: str = ""
    rows: int | None = None
    features: int | None = None
    url: str = ""
    format: str = ""
    positive: str | None = None
    columns: tuple[str, ...] = ()
    label_column: str = ""
    licence: str = "not stated"
    sha256: str = ""
    transform: str = ""
    note: str = ""


def find_entry(name: str, path: str | Path | None = None) -> RegistryEntry:
    """The entry called ``name``; an unknown name is answered with the closest known ones."""
    registry = load_registry(path)
    if name in registry:
        return registry[name]
    close = difflib.get_close_matches(name, registry, n=3)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    raise RegistryError(f"no data set is called {name!r}: {hint}`svmsieve datasets list` shows all names")


def load_registry(path: str | Path | None = None) -> dict[str, RegistryEntry]:
    """All entries by name, from ``path``, else from $SVMSIEVE_DATASETS, else from the packaged file."""
    from pipeline.yaml_lines import read_yaml  # noqa: PLC0415 - YAML, which few commands need

    top = read_yaml(_locate(path), RegistryError, EXAMPLE, f"the path or {VARIABLE}")
    entries = top.section("datasets")
    if entries is None:
        raise top.error("datasets", f"is missing; {EXAMPLE}")
    return {name: _entry(entries, name) for name in entries.items}


def bundled(entry: RegistryEntry) -> tuple[np.ndarray, np.ndarray]:
    """The rows (float64) and labels of a set that scikit-learn carries, transformed as the entry asks."""
    if entry.kind != "bundled" or entry.name not in BUNDLED:
        raise RegistryError(
            f"{entry.name!r} (kind {entry.kind}) is not in scikit-learn, which has {', '.join(BUNDLED)}"
        )
    from sklearn import datasets as carried  # noqa: PLC0415 - slow to import, needed here only

    x, y = getattr(carried, f"load_{entry.name}")(return_X_y=True)
    x = np.ascontiguousarray(x, dtype=np.float64)
    return (_standardise(x) if entry.transform == "standardise" else x), np.asarray(y)


def _standardise(x: np.ndarray) -> np.ndarray:
    """Every column to mean 0 and (population) standard deviation 1; a constant column becomes 0."""
    deviation = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _locate(path: str | Path | None) -> Path:
    """The file to read: explicit, else environment, else inside the wheel, else at the top of a checkout."""
    if path is not None:
        return Path(path)
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    here = Path(__file__).resolve()
    packaged = here.with_name("datasets.yaml")
    return packaged if packaged.exists() else here.parents[3] / "datasets.yaml"


def _entry(entries: Section, name: str) -> RegistryEntry:
    """Check one entry field by field; the first fault is reported as file, line, entry, field, what to write."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise entries.error(brief(name), "the name of a data set has letters, digits, '.', '_' and '-'")
    found = entries.section(name, before=f"entry {name}, ")
    assert found is not None
    found.only(*(field.name for field in fields(RegistryEntry) if field.name != "name"))
    if "kind" not in found.items:
        raise found.error("kind", f"is missing; write one of {', '.join(KINDS)}")
    entry = RegistryEntry(name=name, **{key: found.take(key, READERS.get(key, _words)) for key in found.items})
    if entry.columns and entry.label_column not in entry.columns:
        raise found.error("label_column", "must be one of columns")
    return entry


def _words(value: Any) -> str:
    """Read text of any length, which may be empty."""
    if not isinstance(value, str):
        raise ValueError(f"{brief(value)} is not text; put it in quotes if it is meant so")
    return value


def _columns(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(part, str) for part in value):
        raise ValueError(f"{brief(value)} is not a list of column names")
    return tuple(value)


def _address(value: Any) -> str:
    try:
        fits = isinstance(value, str) and urlsplit(value).scheme in SCHEMES
    except ValueError:  # for example brackets that do not hold an IPv6 address
        fits = False
    if not fits:
        raise ValueError(f"{brief(value)} is not an address of {', '.join(SCHEMES)}")
    return str(value)


def _sha256(value: Any) -> str:
    found = str(value).lower()
    if not re.fullmatch(r"[0-9a-f]{64}", found):
        raise ValueError(f"{brief(value)} is not 64 hexadecimal digits")
    return found


READERS: dict[str, Callable[[Any], Any]] = {
    "kind": one_of(*KINDS),
    "transform": one_of(*TRANSFORMS),
    "rows": whole(1),
    "features": whole(1),
    "positive": label,
    "columns": _columns,
    "url": _address,
    "sha256": _sha256,
}
