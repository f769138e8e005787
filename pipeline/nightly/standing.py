"""How a nightly job stands: is the model that is published the one that should be?

failing     the last night ended with an error, or what is published cannot be used              1
refusing    nothing is published, or the last training was not (gate, certificate), or a hold     3
stale       the published model is older than it may be                                          3
fine                                                                                             0

The first that holds counts. The codes are the exit codes of ``svmsieve nightly`` (which knows no stale) and of
``svmsieve store status``: they stay until a model is published again, whether or not there is anything new.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pipeline.dataclass import dataclass
from pipeline.nightly.days import moment
from pipeline.nightly.history import History
from pipeline.nightly.records import FAILED, HELD, REFUSED, TRAINED, NightRecord
from pipeline.nightly.store import Store

FINE, FAILING, REFUSING, STALE = "fine", "failing", "refusing", "stale"
CODES = {FINE: 0, FAILING: 1, REFUSING: 3, STALE: 3}


@dataclass(frozen=True)
class Standing:
    """A state and, unless it is fine, its reason."""

    state: str
    reason: str = ""

    @property
    def code(self) -> int:
        """The exit code."""
        return CODES[self.state]


def standing(store: Store, max_age: timedelta | None = None) -> Standing:
    """Tell how the job stands that owns this store."""
    history, name = store.read_history(), store.published()
    nights = history.nights
    if nights and nights[-1].status == FAILED:
        return Standing(FAILING, f"night {nights[-1].night} failed: {nights[-1].error}")
    if name is not None and not (store.runs / name).is_dir():
        return Standing(FAILING, f"current points to runs/{name}, which is gone")
    trained = next((night for night in reversed(nights) if night.status in TRAINED), None)
    why = refusal(trained)
    if name is None:
        return Standing(REFUSING, "nothing is published" + (f": {why}" if why else ""))
    if store.hold():
        return Standing(REFUSING, f"held at {name}; svmsieve store release lets the next night publish")
    if why:
        return Standing(REFUSING, f"{why}; runs/{name} stays published")
    age = datetime.now(UTC) - published_at(name, history)
    if max_age is not None and age > max_age:
        return Standing(STALE, f"the model of night {name} is {age.total_seconds() / 3600:,.1f} hours old")
    return Standing(FINE)


def refusal(night: NightRecord | None) -> str:
    """Say why the model of a night was not published; nothing if it was."""
    if night is None or night.status not in (REFUSED, HELD):
        return ""
    said = [f"not passed: {gate.gate}" for gate in night.gates if not gate.passed]
    if night.problem:
        said.insert(0, "its certificate does not hold")
    return f"night {night.night} was {night.status}" + (f" ({'; '.join(said)})" if said else "")


def published_at(name: str, history: History) -> datetime:
    """Return when the model was made: the end of its night, or the day of a night that has no end on record."""
    night = history.of(name)
    return moment((night.ended or night.date) if night else name[:10])
