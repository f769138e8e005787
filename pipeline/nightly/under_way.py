"""The night that is under way: night.json, which says how far it is. Between two nights there is none."""

from __future__ import annotations

from dataclasses import fields
from datetime import date
from typing import Any

from pipeline.dataclass import dataclass
from pipeline.nightly.records import NightRecord, is_night, strict

FORMAT, VERSION = "svmsieve-night", 1  # what older versions wrote is the same, without these two
DECISION = "line"  # what the record is called on disk


@dataclass
class UnderWay:
    """A night, and how far it is."""

    night: str
    """Its name."""
    date: str
    """The day it is run as of."""
    reference: str | None = None
    """The run that it starts from and is compared with."""
    notes: tuple[str, ...] = ()
    """What is wrong with the published run."""
    taken_in: bool = False
    """Whether intake is over."""
    place: str | None = None
    """Where it was stopped last."""
    stops: int = 0
    """How often it was stopped there."""
    record: NightRecord | None = None
    """The decision, once it is made: the record that history.jsonl will have."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data; what is not there is null."""
        item = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "record"}
        return strict(
            {"format": FORMAT, "version": VERSION, **item, DECISION: self.record.to_json() if self.record else None}
        )

    @classmethod
    def from_json(cls, item: Any) -> UnderWay:
        """Read it; raise an error that names what is wrong in it."""
        if not isinstance(item, dict):
            raise ValueError("not an object")
        if (item.get("format", FORMAT), item.get("version", VERSION)) != (FORMAT, VERSION):
            raise ValueError(f"version {item.get('version')!r}, but this svmsieve reads up to {VERSION}")
        date.fromisoformat(item["date"])
        if not is_night(item["night"]) or not (item["reference"] is None or is_night(item["reference"])):
            raise ValueError("night or reference is none")
        notes, place, stops = item.get("notes") or [], item.get("place"), item.get("stops") or 0
        if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
            raise ValueError("notes are none")
        if not isinstance(place, str | None) or type(stops) is not int:
            raise ValueError("place or stops are none")
        record = None if item.get(DECISION) is None else NightRecord.from_json(item[DECISION])
        if record is not None and record.night != item["night"]:
            raise ValueError("the line is of another night")
        taken_in = bool(item.get("taken_in"))
        return cls(item["night"], item["date"], item["reference"], tuple(notes), taken_in, place, stops, record)
