"""The contract every format fulfils, and what a reader may ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol

from pipeline.data.reading.block import Block, ReadRules
from pipeline.dataclass import dataclass

if TYPE_CHECKING:
    from pipeline.data.tables.encoding import Encoding
    from pipeline.data.tables.plan import TablePlan

BLOCK_BYTES = 8 << 20  # of text a task
MAX_LINE = 64 << 20  # of a text line: 3 million pairs of 22 bytes (7 digits, a colon, 13 for the value, a blank) fit

BlockTask = Callable[[], Block]


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about the files: their format and how to read it.

    ``text_base`` is what svmlight indices count from unless ``rules`` say so: that of the data set appended to, or that
    a model was trained on. Rows alike in ``group_column`` stay together where rows are split. Columns to ``ignore`` are
    no features. ``max_line`` bytes are the most that a line of text may have; a row of other formats may have a nonzero
    for every four. Rows to be scored (``rules.unlabelled``) have their features in the columns ``wanted``, if the model
    knows them by name.

    The columns of a table are features as they are, unless ``table`` says what is to be learnt of them, or ``encoding``
    what was learnt.
    """

    format: str = "auto"
    rules: ReadRules = field(default_factory=ReadRules)
    label_column: str = "label"
    weight_column: str = "weight"
    group_column: str | None = None
    columns: tuple[str, ...] | None = None
    text_base: int | None = None
    ignore: tuple[str, ...] = ()
    max_line: int = MAX_LINE
    wanted: tuple[str, ...] | None = None
    table: TablePlan | None = None
    encoding: Encoding | None = None

    def encoded(self, encoding: Encoding) -> ReadOptions:
        """Return the options with which tables are read as those that an encoding was learnt from.

        A label or a weight of another name is found where the user says.
        """
        return replace(
            self,
            encoding=encoding,
            table=None,
            label_column=self.label_column if self.label_column != "label" else encoding.label,
            weight_column=self.weight_column if self.weight_column != "weight" else encoding.weight or "weight",
            group_column=self.group_column or encoding.group,
        )


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
    def tasks(self) -> Iterator[BlockTask]:
        """Yield callables, in source order, that each return the next block."""
        ...
