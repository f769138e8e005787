"""What the targets of the file formats share: a file is written, read as blocks or ingested, and compared."""

from __future__ import annotations

import bz2
import gzip
import lzma
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.reading.base import ReadOptions, Source
from pipeline.data.reading.block import ReadRules
from pipeline.data.reading.choose import open_source
from tests.fuzz.judge import Target, WrongError
from tests.fuzz.mutate import mutated
from tests.fuzz.rows import Row, compare_blocks, compare_shards

COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, 1, mtime=0),
    ".bz2": lambda data: bz2.compress(data, 1),
    ".xz": lambda data: lzma.compress(data, preset=0),
}


class CannotBeReadError(Exception):
    """What the slow reader says of a file that should be refused."""


@dataclass(frozen=True)
class Case:
    """A file, how it is to be read, and the rows that a slow reader finds in it (None: not known).

    ``whole`` is a file that must be accepted. ``base`` is what the rows' indices count from; None: 1 if there is no 0.
    """

    name: str
    content: bytes
    rows: Callable[[], list[Row]] | None = None
    options: ReadOptions = field(default_factory=ReadOptions)
    whole: bool = False
    base: int | None = 0


class FileTarget(Target):
    """A file format."""

    ingested = 0.05  # of the cases; the others stop at the blocks

    @abstractmethod
    def make(self, chance: Random) -> Case:
        """Make a file."""

    def prepare(self, folder: Path) -> None:
        """Have everything compiled: a case must not take the time of that."""
        text = folder / "warm.svm"
        text.write_text("1 1:1 2:0.1\n-1 1:1e30\nx 1:1\n")
        ingest([str(text)], folder / "warm", IngestSpec(positive="1", workers=1))

    def open(self, path: str, options: ReadOptions, chance: Random) -> Source:
        """Open it as the pipeline does."""
        return open_source(path, options)

    def attempt(self, chance: Random, folder: Path) -> None:
        """Write the file, read it, compare."""
        case = self.make(chance)
        path = folder / case.name
        path.write_bytes(case.content)
        try:
            if chance.random() < self.ingested and not case.options.rules.unlabelled:
                self._ingest(case, path, folder / "shards")
            else:
                source = self.open(str(path), case.options, chance)
                blocks = [task() for task in source.tasks()]
                if case.rows:
                    base = 1 if case.base is None else case.base
                    compare_blocks(blocks, _slow(case), base, not case.options.rules.unlabelled)
        except WrongError:
            raise
        except Exception as error:
            if case.whole and not _of_few_classes(str(error)):
                raise WrongError("a whole file was refused", str(error)) from error
            raise

    def _ingest(self, case: Case, path: Path, out: Path) -> None:
        ingest([str(path)], out, IngestSpec(case.options, rows_per_shard=3, workers=1))
        data = open_shards(out)
        if case.rows:
            rows, base = _slow(case), case.base
            if base is None:
                base = 0 if any(index == 0 for row in rows for index, _ in row.pairs) else 1
            compare_shards(data, rows, base)


def _slow(case: Case) -> list[Row]:
    assert case.rows is not None
    try:
        return case.rows()
    except CannotBeReadError as error:
        raise WrongError("a slow reader refuses it", str(error)) from error


def _of_few_classes(said: str) -> bool:
    """A whole file may happen to have one class, or three."""
    return "class" in said or "labels" in said


def random_rules(chance: Random, features: int) -> ReadRules:
    """Choose how rows are read, mostly by the defaults, now and then to be scored."""
    unlabelled = chance.random() < 0.15
    if chance.random() < 0.6:
        return ReadRules(unlabelled=unlabelled)
    base, limit = chance.choice((None, 0, 1)), chance.choice((None, features, 1))
    return ReadRules(base, limit, chance.random() < 0.5, unlabelled)


def packed(chance: Random, name: str, content: bytes) -> tuple[str, bytes, bool]:
    """Compress now and then, and damage that now and then; return the name, the content, and whether it is whole."""
    if chance.random() > 0.06:
        return name, content, True
    suffix = chance.choice(list(COMPRESSED))
    done = COMPRESSED[suffix](content)
    if chance.random() < 0.5:
        return name + suffix, done, True
    damaged = mutated(chance, done)
    return name + suffix, damaged, damaged == done
