"""Writing the run directory of several classes (see ``classes``), and going on with one that was interrupted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.errors import RunError
from pipeline.files import write_json
from pipeline.runs.classes import ClassesHeader, chain_of
from pipeline.runs.data_record import DataRecord
from pipeline.runs.directory import HEADER, PARTS, io_errors, read_item
from pipeline.runs.memory import MemoryPlace, Place
from pipeline.runs.records import CLASSES_FORMAT
from pipeline.runs.run import Run
from pipeline.runs.writer import alone_in, expect_same, make_run_folder
from pipeline.spec import PathSpec


class ClassesWriter:
    """Changes the run.json of several classes; their own runs are written by others."""

    def __init__(self, place: Place, header: ClassesHeader) -> None:
        self.place, self.header = place, header
        self.folder = place.path if isinstance(place, MemoryPlace) else place
        if isinstance(place, MemoryPlace):
            place.header = header

    def part(self, k: int) -> Place:
        """Return the run directory of a class."""
        return self.place / PARTS / str(k)

    def update(self, **items: Any) -> None:
        """Change run.json, if that changes it."""
        header = self.header.changed(**items)
        if header != self.header:
            self.header = header
            if isinstance(self.place, MemoryPlace):
                self.place.header = header
                return
            write_json(self.folder / HEADER, header.to_json())

    def expect_whole(self, runs: Sequence[Run]) -> None:
        """Raise RunError if a finished run has other classes than those that it was finished with."""
        if self.header.is_finished and self.header.chain != self._chain(runs):
            what = f"{HEADER} is not that of its {PARTS}"
            raise RunError(f"{self.folder}: {what}; remove {self.folder} to start afresh")

    def finish(self, runs: Sequence[Run], **items: Any) -> None:
        """Write what is known when all classes are finished."""
        self.update(status="finished", chain=self._chain(runs), **items)

    def _chain(self, runs: Sequence[Run]) -> str:
        return chain_of(self.header.to_json(), [run.header.seal for run in runs])


@contextmanager
def writing_classes(
    path: str | Place, spec: PathSpec, data: DataRecord, versions: dict[str, str]
) -> Iterator[ClassesWriter]:
    """Open the run directory of several classes, new or to be continued, for the only writer."""
    if isinstance(path, MemoryPlace):
        yield ClassesWriter(path, path.header or ClassesHeader.begun(spec, data, versions))
        return
    folder = Path(path).resolve()
    with io_errors(folder):
        make_run_folder(folder)
    with alone_in(folder):
        for half in folder.glob("*.tmp"):
            half.unlink()
        yield ClassesWriter(folder, _header(folder, spec, data, versions))


def _header(folder: Path, spec: PathSpec, data: DataRecord, versions: dict[str, str]) -> ClassesHeader:
    """Return what run.json says, if it is that of the same run; a new one is written."""
    if not (folder / HEADER).is_file():
        header = ClassesHeader.begun(spec, data, versions)
        write_json(folder / HEADER, header.to_json())
        return header
    item = read_item(folder)
    if item["format"] != CLASSES_FORMAT:
        problem = f"is a run of two classes, and the data have {len(data.classes)}"
        raise RunError(f"{folder}: {problem}; remove {folder} to start afresh, or choose another --out")
    header = ClassesHeader.from_json(item)
    expect_same(folder, header, spec, data, versions)
    return header
