"""The history of a job: history.jsonl, a line a night.

A line that is damaged stays where it is and is reported; the nights before and after it count.
"""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.dataclass import dataclass
from pipeline.nightly.records import NightRecord
from pipeline.yaml_values import brief


@dataclass(frozen=True)
class History:
    """The nights that can be read, in order, and what is wrong with the other lines."""

    nights: list[NightRecord]
    damage: list[str]

    def of(self, name: str | None) -> NightRecord | None:
        """Return the last record of a night; None if there is none."""
        return next((night for night in reversed(self.nights) if night.night == name), None)


def written(night: NightRecord) -> str:
    """Return a record as a line of text."""
    return json.dumps(night.to_json(), allow_nan=False) + "\n"


def read_history(path: Path) -> History:
    """Read all lines; what follows the last newline was never written to its end."""
    found = History([], [])
    if not path.is_file():
        return found
    texts = path.read_bytes().split(b"\n")
    for number, text in enumerate(texts[:-1] if not texts[-1].strip() else texts, 1):
        try:
            found.nights.append(NightRecord.from_json(json.loads(text.decode("utf-8"))))
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            reason = brief(str(error) or type(error).__name__)
            found.damage.append(f"{path}, line {number}: damaged ({reason}); the line is left out, mend or remove it")
    return found
