"""The contract every format fulfils, and what a reader may ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.data.block import Block, ReadRules

BLOCK_BYTES = 8 << 20

Task = Callable[[], Block]


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about the files: their format and how to read it.

    ``text_base`` is what svmlight indices count from unless ``rules`` say so: that of the data set appended to.
    """

    format: str = "auto"
    rules: ReadRules = field(default_factory=ReadRules)
    label_column: str = "label"
    weight_column: str = "weight"
    columns: tuple[str, ...] | None = None
    text_base: int | None = None


class Source(Protocol):
    """One file of rows."""

    format: str
    path: str
    rules: ReadRules
    columns: tuple[str, ...] | None

    @property
    def size(self) -> int: ...  # noqa: D102
    @property
    def n_features(self) -> int | None: ...  # noqa: D102
    def tasks(self) -> Iterator[Task]:
        """Yield callables, in source order, that each return the next block."""
        ...
