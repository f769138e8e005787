"""The journal of a shard directory that is being changed: which files its manifest need not name.

    {"format": "svmsieve-journal", "version": 1, "first_new": 12, "removed": ["shard-00003.arrow"]}

Shards numbered ``first_new`` and above are being added; those in ``removed`` leave the data set. It is on the disk
before the first such file is written or the manifest lets one go, and goes when all is done. So of the shards that the
manifest does not name, those that a killed writer left are known beyond doubt, and no other is ever removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipeline.data.shards.shard import is_shard_name, number_of
from pipeline.data.shards.strict import LARGEST, Form, Must, fitting, list_of, loads, one_among, whole_between
from pipeline.dataclass import dataclass
from pipeline.errors import DatasetError
from pipeline.files import write_json

JOURNAL = "journal.json"
_FORM: Form = {
    "format": one_among("svmsieve-journal"),
    "version": one_among(1),
    "first_new": whole_between(0, LARGEST),
    "removed": list_of(Must(lambda name: type(name) is str and is_shard_name(name), "the name of a shard")),
}


@dataclass(frozen=True)
class Journal:
    """What is being changed."""

    first_new: int
    removed: frozenset[str] = frozenset()

    def explains(self, name: str, next_number: int) -> bool:
        """Tell whether a shard that the manifest does not name was left by a killed writer.

        A manifest whose next number is higher than ``first_new`` was written at the end of the change: of the numbers
        below it, it names all that were new.
        """
        return name in self.removed or number_of(name) >= max(self.first_new, next_number)


def write_journal(directory: Path, first_new: int, removed: Iterable[str] = ()) -> None:
    """Say what is going to be changed."""
    form = {"format": "svmsieve-journal", "version": 1, "first_new": first_new, "removed": sorted(removed)}
    write_json(directory / JOURNAL, form)


def read_journal(directory: Path) -> Journal | None:
    """Return what a writer was changing; None if all was done."""
    path = directory / JOURNAL
    try:
        item = fitting(loads(path.read_bytes()), _FORM)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        problem = f"the journal of an interrupted change is damaged ({' '.join(str(error).split())})"
        cure = "move it and the shards that manifest.json does not name away"
        raise DatasetError(f"{path}: {problem}; {cure}, then run again") from error
    return Journal(item["first_new"], frozenset(item["removed"]))


def end_journal(directory: Path) -> None:
    """Say that all is done; a power cut that brings the journal back does no harm."""
    (directory / JOURNAL).unlink(missing_ok=True)
