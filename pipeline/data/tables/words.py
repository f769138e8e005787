"""Text as words and runs of words in hashed buckets: scikit-learn's HashingVectorizer, a row's entries of norm 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from pipeline.data.reading.block import Origin
from pipeline.data.reading.gaps import NOTHING
from pipeline.data.reading.layout import is_text
from pipeline.dataclass import dataclass
from pipeline.errors import DataError

Batch: TypeAlias = pa.RecordBatch | pa.Table


@dataclass(frozen=True)
class Words:
    """The words of a column, ``column:word``, from ``ngrams[0]`` to ``ngrams[1]`` of them together."""

    role: ClassVar[str] = "words"
    column: str
    ngrams: tuple[int, int]
    buckets: int
    width: ClassVar[int] = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def name(self, k: int) -> str:
        """Have no feature of its own."""
        raise IndexError(k)

    @cached_property
    def _analyse(self) -> Callable[[str], Iterable[str]]:
        return vectoriser(ngram_range=self.ngrams).build_analyzer()

    def names(self, document: str) -> list[str]:
        """Return what is counted in a text."""
        return [f"{self.column}:{word}" for word in self._analyse(document)]

    def matrix(self, batch: Batch, origin: Origin) -> sp.csr_matrix:
        """Return the buckets of every row's words."""
        documents = texts_of(batch, self.column, origin)
        found = vectoriser(n_features=self.buckets, analyzer=self.names, norm="l2").transform(documents)
        found.data = found.data.astype(np.float32).astype(np.float64)  # as scaled numbers are
        return found


def vectoriser(**settings: Any) -> Any:
    """Return scikit-learn's HashingVectorizer."""
    from sklearn.feature_extraction.text import HashingVectorizer  # noqa: PLC0415 - slow to import, and seldom needed

    return HashingVectorizer(**settings)


def texts_of(batch: Batch, name: str, origin: Origin) -> list[str]:
    """Return the texts of a column, empty where there is none."""
    column = batch.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (is_text(kind) or pa.types.is_null(kind)):
        raise DataError(f"column '{name}' is {kind}, not text; name it under another heading", path=origin.path)
    return ["" if text is None or text in NOTHING else text for text in column.cast(pa.string()).to_pylist()]
