"""Rows to be scored: read for a model, straight from their files, with a label or without.

    files -> blocks, features found by the model's names -> scores, and the class where the label says one

Nothing is stored and nothing is read twice. Columns are matched by name where model and table have names, wherever they
stand; formats without names (svmlight, npz, list columns) by position. What indices of svmlight text count from is what
it was in training. Memory is a few blocks, whatever the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.cores import available_cores
from pipeline.data.ingest.assemble import Piece, join
from pipeline.data.ingest.ingest import IngestSpec, Input
from pipeline.data.ingest.tables import others_of
from pipeline.data.inputs import as_they_are, refuse_other_formats, resolve
from pipeline.data.parallel import in_order
from pipeline.data.reading.base import BlockTask, Source
from pipeline.data.reading.block import Block
from pipeline.data.reading.labels import KnownClasses, KnownLabels
from pipeline.data.reading.layout import Layout, listed, refuse_indices
from pipeline.data.shards.digest import Lanes, digest_rows, fingerprint, join_digests
from pipeline.dataclass import dataclass
from pipeline.errors import NoRowsError, SpecError
from pipeline.events import Listener, Note, silent
from pipeline.maths.row_sketch import RowSketch, SketchTally
from pipeline.scoring.models import AnyModel
from pipeline.scoring.watch import Watch, block_tally

if TYPE_CHECKING:
    from pipeline.data.reading.ids import IdColumns


class RowsToScore:
    """The rows that a path stands for, as ``model`` needs them. ``bytes`` is what there is to read.

    ``files`` has the digest and the number of rows of each file that was read, in order; once that is all of them, what
    is said of the rows as a whole (``n_rows``, ``fingerprint``) is known. ``ids`` are columns that the user wants
    beside the scores: by default those that were ids in training, as far as the files have them.
    """

    def __init__(
        self,
        model: AnyModel,
        path: str | Path,
        spec: IngestSpec | None = None,
        listen: Listener = silent,
        ids: Sequence[str] | None = None,
    ) -> None:
        spec = as_they_are(spec or IngestSpec(bias=model.bias))
        if model.encoding is not None:
            spec = replace(spec, bias=spec.bias or model.bias, reading=spec.reading.encoded(model.encoding))
        self.model, self.path, self.listen = model, str(path), listen
        refuse_other_formats(self.path, spec)
        found, spec = resolve(self.path, spec, listen)
        model.check_bias(self.path, spec.bias)
        known = model.labels
        self.labels = KnownClasses(known.classes, spec.positive) if known.classes else KnownLabels(known, spec.positive)
        base = model.feature_names.index_base
        rules = replace(spec.reading.rules, unlabelled=True)
        self.reading = replace(spec.options, rules=rules, text_base=1 if base is None else base, wanted=model.columns)
        self.sources: list[Source] = found.open(self.reading) if isinstance(found, Input) else [found]
        self.bytes = sum(source.size for source in self.sources)
        self.ids = self._usual_ids() if ids is None else tuple(ids)
        self._check_columns()
        self.workers = spec.workers or available_cores()
        self.read, self.largest = 0, -1
        self.files: list[tuple[Lanes, int]] = []

    def parts(self, watch: Watch | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield scores and signs (-1, +1, or 0 where the label says no class), part after part in row order.

        By a model of several classes, a row has a score for each, and the code of a class (or ``UNKNOWN``) for a sign.
        ``watch`` is shown the rows.
        """
        self.read, self.largest, self.files = 0, -1, []
        scorer = _Scorer(self.model, self.labels, None if watch is None else watch.sketch)
        others = others_of(self.model.encoding)
        with ThreadPoolExecutor(self.workers, "svmsieve-predict") as pool:
            for source in self.sources:
                digests: list[tuple[Lanes, int]] = []
                for block, part in in_order(pool, map(scorer.of, source.tasks()), ahead=self.workers + 1):
                    self.read += block.source_bytes
                    self.largest = max(self.largest, block.largest)
                    digests.append((part.lanes, block.n_rows))
                    self.labels.count(block.labels)
                    if others is not None:
                        others.count(block)
                    if watch is not None:
                        watch.tally += part.tally
                    yield part.score, part.sign
                self.files.append((join_digests(digests), sum(rows for _, rows in digests)))
                if not self.files[-1][1]:
                    raise NoRowsError(
                        "no rows in the file; remove it from the list or write it again", path=source.path
                    )
        self._report()
        for said in () if others is None else others.notes():
            self.listen(Note(f"{self.path}: {said}"))

    def _usual_ids(self) -> tuple[str, ...]:
        """Return the columns that were ids in training, as far as the files have them."""
        encoding = self.model.encoding
        if encoding is None or not encoding.ids:
            return ()
        from pipeline.data.reading.ids import usual_ids  # noqa: PLC0415 - slow to import: Arrow's readers

        return usual_ids(self.sources, encoding.ids, self.path, self.listen)

    def id_columns(self) -> IdColumns | None:
        """Return the columns that go beside the scores, from the first row on; None if there are none."""
        from pipeline.data.reading.ids import IdColumns  # noqa: PLC0415 - slow to import: Arrow's readers

        return IdColumns(self.sources, self.ids, self.path) if self.ids else None

    @property
    def n_rows(self) -> int:
        """Number of rows in the files read so far."""
        return sum(rows for _, rows in self.files)

    @property
    def fingerprint(self) -> str:
        """What the fingerprint of a data set of the rows read is, as far as the model's features and labels go."""
        return fingerprint(self.files, self.model.known + (1 if self.model.bias else 0))

    def _check_columns(self) -> None:
        """Say what is matched how, and refuse widths that cannot be: before anything is read."""
        known, model = self.model.known, self.model
        unnamed = [source for source in self.sources if source.columns is None and not _is_encoded(source)]
        for source in unnamed:
            width = source.n_features
            if width is not None and width != known and (model.columns or model.encoding):
                raise self._other_width(width)
            if width is not None and width < known:
                self.listen(Note(f"{source.path}: has {width:,} features, the model {known:,}; the missing ones are 0"))
        if unnamed and (model.columns or model.encoding):
            self.listen(Note(f"{self.path}: has no column names; its features are taken by position"))
        extra: dict[str, None] = {}
        found = [getattr(source, "layout", None) for source in self.sources]
        layouts = [layout for layout in found if isinstance(layout, Layout)]
        if layouts and len(layouts) == len(found):
            refuse_indices(layouts, self.reading, self.path)
        for layout in layouts:
            extra |= dict.fromkeys(name for name in layout.extra if name not in self.ids)
        if extra:
            self.listen(Note(f"{self.path}: columns the model does not know are ignored: {listed(list(extra))}"))

    def _report(self) -> None:
        """Say what was passed over, once all has been read."""
        own, known, unknown = self.largest + 1, self.model.known, self.labels.unknown
        if own > known and (self.model.columns or self.model.encoding):
            raise self._other_width(own)
        if own > known:
            said = f"has {own:,} features, the model {known:,}; {self.model.beyond}"
            self.listen(Note(f"{self.path}: {said}"))
        if unknown:
            rows = sum(unknown.values())
            said = f"labels the run does not know: {listed(sorted(unknown))}; {rows:,} rows are not judged"
            self.listen(Note(f"{self.path}: {said}"))

    def _other_width(self, width: int) -> SpecError:
        known = self.model.known
        problem = f"has {width:,} features without names, the run {self.model.run} {known:,}"
        return SpecError(f"{self.path}: {problem}; write the same features in the same order, or a table with names")


def _is_encoded(source: Source) -> bool:
    layout = getattr(source, "layout", None)
    return isinstance(layout, Layout) and layout.encoding is not None


@dataclass(frozen=True)
class _Part:
    score: np.ndarray
    sign: np.ndarray
    lanes: Lanes
    tally: SketchTally


@dataclass(frozen=True)
class _Scorer:
    """Parses and scores blocks, wherever that is done."""

    model: AnyModel
    labels: KnownLabels | KnownClasses
    sketch: RowSketch | None

    def of(self, task: BlockTask) -> Callable[[], tuple[Block, _Part]]:
        """Return the task that makes a block and scores it."""
        return partial(self._scored, task)

    def _scored(self, task: BlockTask) -> tuple[Block, _Part]:
        block = task()
        sign = self.labels.signs_of(block.labels)
        rows = join([Piece(block, sign, 0, block.n_rows)], self.model.bias, self.model.known)
        tally = SketchTally() if self.sketch is None else block_tally(block, self.sketch)
        return block, _Part(self.model.block_scores(block, rows), sign, digest_rows(rows), tally)
