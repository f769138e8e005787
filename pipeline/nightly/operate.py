"""What an operator does to a store: look at it, go back to an earlier model and stay there, see to the quarantine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from pipeline.errors import JobError
from pipeline.nightly.ledger import DROPPED, RETRY, Ledger
from pipeline.nightly.metrics import write_metrics
from pipeline.nightly.records import HELD, PUBLISHED, is_night
from pipeline.nightly.standing import Standing, published_at
from pipeline.nightly.store import Store
from pipeline.nightly.tonight import expect_usable

NIGHTS_SHOWN = 7  # a week


def status(store: Store, how: Standing) -> dict[str, Any]:
    """Return all that one wants to know of a store, also while a night is at work in it."""
    history, name = store.read_history(), store.published()
    published = dict[str, Any]()
    if name is not None:
        made, night = published_at(name, history), history.of(name)
        published = {"night": name, "made": made.strftime("%Y-%m-%dT%H:%M:%SZ")}
        published |= {"age_seconds": round((datetime.now(UTC) - made).total_seconds())}
        published |= {key: getattr(night, key, None) for key in ("rows", "c", "relative_gap", "scores")}
    shown, last = ("night", "status", "ended", "rows", "error", "notes"), history.nights[-NIGHTS_SHOWN:]
    return {
        "store": str(store.root),
        "state": how.state,
        "reason": how.reason,
        "exit_code": how.code,
        "published": published or None,
        "hold": store.hold(),
        "under_way": store.pending.is_file(),
        "nights": [{key: said for key in shown if (said := getattr(night, key))} for night in last],
        "quarantine": quarantine(store.ledger()),
        "damage": history.damage,
    }


def quarantine(ledger: Ledger) -> list[dict[str, str]]:
    """Return what is in quarantine, why, and since which night."""
    return [{"file": e.name, "status": e.status, "reason": e.note, "night": e.night} for e in ledger.quarantined()]


def release_from_quarantine(store: Store, retry: Iterable[str], drop: Iterable[str]) -> list[str]:
    """Have the next night try files again, or never try them again as they are; return what was done to each."""
    with store.opened(0.0):
        ledger, done = store.ledger(), []
        tried, dropped = ([_full_name(store, ledger, name) for name in names] for names in (retry, drop))
        for name in set(tried).intersection(dropped):
            raise JobError(f"{store.root}: {name}: either --retry or --drop it")
        for name in tried:
            entry = ledger.entries[name]
            ledger.entries[name] = replace(entry, stamp=RETRY + entry.stamp.removeprefix(RETRY))
            done.append(f"{name} will be tried again next night")
        for name in dropped:
            entry = ledger.entries[name]
            ledger.entries[name] = replace(entry, status=DROPPED, stamp=entry.stamp.removeprefix(RETRY))
            done.append(f"{name} is dropped: not tried again unless it changes")
        ledger.save()
        write_metrics(store)
    return done


def _full_name(store: Store, ledger: Ledger, name: str) -> str:
    """Return the one file in quarantine that has this name, with or without its folders."""
    found = [e.name for e in ledger.quarantined() if name in (e.name, PurePosixPath(e.name).name)]
    if len(found) != 1:
        problem = f"{len(found)} files there have this name; name its folders too" if found else "not in quarantine"
        raise JobError(f"{store.root}: {name}: {problem}; svmsieve store quarantine {store.root} lists what is")
    return found[0]


def roll_back(store: Store, name: str | None) -> str:
    """Publish the run of an earlier night, by default the one published before, and hold it; return its name."""
    with store.opened(0.0):
        name = _published_before(store) if name is None else name
        if not is_night(name) or not (store.runs / name).is_dir():
            kept = ", ".join(sorted(path.name for path in store.runs.iterdir() if is_night(path.name))) or "none"
            raise JobError(f"{store.root}: there is no run of night {name} (keep in job.yaml); there are: {kept}")
        night = store.read_history().of(name)
        if night is None or night.status not in (PUBLISHED, HELD):
            was = night.status if night else "never finished"
            raise JobError(f"{store.root}: night {name} was {was}: no judge let it pass; name one that was published")
        expect_usable(store.runs / name)
        store.set_hold(name)  # first: killed in between, no night publishes over what was meant to stay
        store.publish(name)
        write_metrics(store)
    return name


def _published_before(store: Store) -> str:
    current = store.published()
    names = [night.night for night in store.history() if night.status == PUBLISHED]
    before = names[: names.index(current)] if current in names else names
    kept = [name for name in before if (store.runs / name).is_dir()]
    if not kept:
        raise JobError(f"{store.root}: no run that was published before {current} is kept; raise keep in job.yaml")
    return kept[-1]


def release(store: Store) -> bool:
    """Let nights publish again; return whether they could not."""
    with store.opened(0.0):
        held = store.release()
        write_metrics(store)
    return held
