"""What the features of a run are called: the one place that says so, for weights, exports and reports.

A column has its name, and what was made of the columns of a table says what it was made of: ``carrier=UA``. Features
without names are counted as the user's svmlight text counted them, from 0 where there was no such text. The bias
column, the last one where there is a bias, is ``bias``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.data.dataset import Dataset, names_of
from pipeline.data.shards.manifest import MANIFEST, read_manifest
from pipeline.data.stores.located import is_url
from pipeline.dataclass import dataclass
from pipeline.errors import DatasetError, RunError
from pipeline.runs.data_record import DataRecord

if TYPE_CHECKING:
    from pipeline.data.tables.encoding import Encoding

BIAS = "bias"


@dataclass(frozen=True)
class FeatureNames:
    """The names of ``own`` features and, after them, of the bias column if there is one."""

    own: int
    columns: tuple[str, ...] | None = None
    index_base: int | None = None
    has_bias: bool = False
    encoding: Encoding | None = None

    def of(self, j: int) -> str:
        """Return the name of the feature that is number ``j``, counted from 0, of w."""
        if not 0 <= j < self.own + self.has_bias:
            raise IndexError(f"there is no feature {j}; there are {self.own + self.has_bias}, from 0 on")
        if j == self.own:
            return BIAS
        if self.encoding is not None:
            return self.encoding.name(j)
        return f"feature {j + (self.index_base or 0)}" if self.columns is None else self.columns[j]

    def in_bucket(self, j: int) -> list[tuple[str, int]]:
        """Return what is known to be hashed to feature ``j``, most frequent first, each with the sign of its values."""
        hashed = self.encoding is not None and self.encoding.n_own <= j < self.own
        return self.encoding.bucket(j) if self.encoding is not None and hashed else []

    def every(self) -> list[str] | None:
        """Return a name for every feature but the bias, hashed ones by their number; None if they have no names."""
        if self.encoding is None:
            return None if self.columns is None else list(self.columns)
        buckets = (f"bucket {k}" for k in range(self.encoding.buckets))
        return [*self.encoding.names(range(self.encoding.n_own)), *buckets]


def names_in(data: Dataset) -> FeatureNames:
    """Return the names of the features of data that are at hand."""
    return FeatureNames(data.own_features, data.columns, data.index_base, bool(data.bias), data.encoding)


def feature_names(about: DataRecord, run: str | Path = "the run") -> FeatureNames:
    """Return the names of the features of the data that a run was trained on; errors name the run."""
    columns, own = _columns(about), about.features - (1 if about.bias else 0)
    if columns is not None and len(set(columns)) != own:
        raise RunError(f"{run}: run.json does not name the model's {own:,} features; train again")
    return FeatureNames(own, columns, about.index_base, bool(about.bias), about.encoding)


def _columns(about: DataRecord) -> tuple[str, ...] | None:
    """Return the names of columns; a run of before they were kept has those of its data, if these are there."""
    if about.says_columns:
        return about.columns
    folder = Path(about.path)
    if is_url(about.path) or not (folder / MANIFEST).is_file():
        return None
    try:
        found = read_manifest(folder)
    except DatasetError:
        return None  # the data are no longer what they were
    return names_of(found) if found.fingerprint == about.fingerprint else None
