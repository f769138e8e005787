"""What run.json and steps.jsonl may say: files that anybody can have changed are checked before they are believed.

Every key that is read somewhere has its kind here; others are let through, for newer versions add some. A check raises
ValueError that names the key; who reads the file says where it stands and what to do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from pipeline.data.shards.strict import is_unicode
from pipeline.errors import shown
from pipeline.maths.calibration import Calibration, is_number
from pipeline.maths.score import LOG_LOSS, WHERE_SELECTED
from pipeline.runs.data_record import stored_table
from pipeline.runs.held_out import ClassesHeldOut, HeldOut
from pipeline.spec import RULES, SCORES, PathSpec

STATUS = ("running", "finished")
MOST_ROWS, MOST_FEATURES = 2**62, 2**31  # of any data set
_DIGEST = re.compile(r"[0-9a-f]{32}")

Check = Callable[[Any], bool]


def read_json(text: str) -> Any:
    """Read JSON; nan and infinity, which older versions wrote where there is no score, are None. Raise ValueError."""
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _is_whole(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and 0 <= x <= MOST_ROWS


def _is_positive(x: Any) -> bool:
    return is_number(x) and x > 0


def _is_text(x: Any) -> bool:
    return isinstance(x, str)


def _are_names(x: Any) -> bool:
    return isinstance(x, list) and all(map(is_unicode, x))


def _is_score(x: Any) -> bool:
    return x is None or (is_number(x) and 0 <= x <= 1)


def _is_loss(x: Any) -> bool:
    return x is None or (is_number(x) and x >= 0)


def _are_scores(x: Any) -> bool:
    """Tell scores: all but those that must be selected are always there, and all but the log-loss are shares."""
    if not isinstance(x, dict) or not _is_loss(x.get(LOG_LOSS)):
        return False
    needed = [name for name in SCORES if name not in WHERE_SELECTED]
    return all(name in x for name in needed) and all(_is_score(x.get(name)) for name in SCORES if name != LOG_LOSS)


def _are_class_scores(x: Any) -> bool:
    """Tell scores of several classes, which need not have every name."""
    return isinstance(x, dict) and all(name in SCORES and _is_loss(value) for name, value in x.items())


def _are_classes(x: Any) -> bool:
    return _are_names(x) and len(x) > 2 and len(set(x)) == len(x)


def _or_none(check: Check) -> Check:
    return lambda x: x is None or check(x)


def _each(check: Check) -> Check:
    return lambda x: isinstance(x, list) and all(check(item) for item in x)


def _values(check: Check) -> Check:
    return lambda x: isinstance(x, dict) and all(check(item) for item in x.values())


def _is_shard(x: Any) -> bool:
    return isinstance(x, list) and len(x) == 2 and _is_digest(x[0]) and _is_whole(x[1])


def _is_digest(x: Any) -> bool:
    return _is_text(x) and _DIGEST.fullmatch(x) is not None


def _are_counts_of_rules(x: Any) -> bool:
    """Tell counts of rows proven ZERO and UPPER, by the rule."""
    return _values(lambda pair: _each(_is_whole)(pair) and len(pair) == 2)(x) and set(x) <= set(RULES)


def _is_reference(x: Any) -> bool:
    texts = isinstance(x, dict) and all(_or_none(_is_text)(x.get(name)) for name in ("fingerprint", "model"))
    return texts and _is_positive(x.get("c"))


def _is_worth(x: Any) -> bool:
    gap = isinstance(x, dict) and _or_none(is_number)(x.get("relative_gap"))
    return gap and _or_none(_are_scores)(x.get("scores"))


def _is_sketch(x: Any) -> bool:
    return isinstance(x, dict) and all(name in x and check(x[name]) for name, check in SKETCH.items())


def _read_by(read: Callable[[Any], object]) -> Check:
    """Return a check of what a function can read, or raises ValueError for."""

    def check(x: Any) -> bool:
        try:
            read(x)
        except ValueError:
            return False
        return True

    return check


def _are_labels(x: Any) -> bool:
    return isinstance(x, dict) and all(_are_names(x.get(side)) and x[side] for side in ("negative", "positive"))


SKETCH: dict[str, Check] = {
    **dict.fromkeys(("version", "count"), _is_whole),
    "complete": lambda x: isinstance(x, bool),
    "sha256": _is_text,
}
HEADER: dict[str, Check] = {
    "status": lambda x: x in STATUS,
    "versions": _values(_is_text),
    "n_steps": _or_none(_is_whole),
    "best_step": _or_none(_is_whole),
    "stopped": lambda x: x in (None, "patience"),
    "c_min": _or_none(_is_positive),
    "class_weights": _or_none(lambda x: isinstance(x, list | tuple) and len(x) == 2 and all(map(_is_positive, x))),
    **dict.fromkeys(("cv_scores", "cv_se"), _or_none(_each(_are_scores))),
    "cv_c": _or_none(_each(_is_positive)),
    **dict.fromkeys(("c_best", "c_1se"), _or_none(_is_positive)),
    "calibration": _or_none(_read_by(Calibration.from_json)),
    "held_out": _or_none(_read_by(HeldOut.from_json)),
    "peak_memory": _or_none(is_number),
    "seconds": _or_none(is_number),
    **dict.fromkeys(("chain", "seal"), _or_none(_is_text)),
    "sketch": _or_none(_is_sketch),
}
CLASSES: dict[str, Check] = HEADER | {
    "class_weights": _or_none(_each(_is_positive)),
    "scores": _or_none(_each(_are_class_scores)),
    **dict.fromkeys(("cv_scores", "cv_se"), _or_none(_each(_are_class_scores))),
    "calibration": _or_none(_each(_read_by(Calibration.from_json))),
    "held_out": lambda x: True,  # as many as there are classes: ``check_classes``
}
DATA: dict[str, Check] = {
    "path": _is_text,
    "fingerprint": _is_text,
    "rows": _is_whole,
    "features": lambda x: _is_whole(x) and x < MOST_FEATURES,
    "nnz": _is_whole,
    "bias": is_number,
    "labels": _are_labels,
    "columns": _or_none(_are_names),
    "table": _read_by(stored_table),
    "index_base": lambda x: x is None or (_is_whole(x) and x <= 1),
    "shards": _each(_is_shard),
    "validation": _or_none(_is_text),
    "reference": _each(_is_reference),
}
STEP: dict[str, Check] = {
    **dict.fromkeys(("c", "c_ref"), _is_positive),
    **dict.fromkeys(("rule", "solver"), _is_text),
    **dict.fromkeys(("n_rows", "screened_zero", "screened_upper", "survivors"), _is_whole),
    **dict.fromkeys(("working_set", "n_free", "n_upper"), _is_whole),
    **dict.fromkeys(("passes", "primal", "dual", "relative_gap", "theta"), is_number),
    "drift": lambda x: is_number(x) and x >= 0,
    "error": _or_none(is_number),
    "scores": _or_none(_are_scores),
    "seconds": lambda x: _values(is_number)(x) and "total" in x,
}
STEP_EXTRAS: dict[str, Check] = {
    **dict.fromkeys(("rounds", "kernel_values"), _or_none(_is_whole)),
    **dict.fromkeys(("model", "chain"), _or_none(_is_text)),
    "rules": _or_none(_are_counts_of_rules),
    "reference": _or_none(_is_worth),
    "read": _or_none(lambda x: is_number(x) and 0 <= x <= 1),
}  # some runs have none of these
NEEDED = ("path", "fingerprint", "rows", "features", "bias")  # of any data


def check_header(header: dict[str, Any]) -> None:
    """Check run.json, once its format and version are known to be ours."""
    _check_parts(header, HEADER, DATA, (*NEEDED, "labels"))
    for name in ("n_steps", "seconds") if header["status"] == "finished" else ():
        if header.get(name) is None:
            raise ValueError(f"it does not say its {name}")


def check_classes(header: dict[str, Any]) -> None:
    """Check the run.json of a run of several classes, once its format and version are known to be ours."""
    data = {name: check for name, check in DATA.items() if name != "labels"} | {"classes": _are_classes}
    _check_parts(header, CLASSES, data, (*NEEDED, "classes"))
    if header.get("classes") != header["data"]["classes"]:
        raise ValueError("its classes are not those of its data")
    count = len(header["data"]["classes"])
    for name in ("class_weights", "calibration"):
        if header.get(name) is not None and len(header[name]) != count:
            raise ValueError(f"it has {len(header[name])} entries in {name} for {count} classes")
    if header.get("held_out") is not None:
        ClassesHeldOut.from_json(header["held_out"], count)
    scores, steps = header.get("scores"), header.get("n_steps")
    if header["status"] == "finished" and (steps is None or (scores is not None and len(scores) != steps)):
        raise ValueError("it does not say its n_steps, or has other scores than steps")


def _check_parts(
    header: dict[str, Any], whole: dict[str, Check], data: dict[str, Check], needed: tuple[str, ...]
) -> None:
    PathSpec.from_json(header["spec"])
    _check(header, whole, ("status",))
    if not isinstance(header["data"], dict):
        raise ValueError("data is not an object")
    _check(header["data"], data, needed)


def check_step(facts: Any, number: int, c_before: float) -> None:
    """Check the line of step ``number``, which follows one with C = ``c_before``."""
    check_place(facts, number)
    _check(facts, STEP | STEP_EXTRAS, tuple(STEP))
    if not facts["c"] > c_before:
        raise ValueError(f"C = {facts['c']:g} does not ascend")


def check_place(facts: Any, number: int) -> None:
    """Check that a line is an object, and that of step ``number``."""
    if not isinstance(facts, dict):
        raise ValueError("not an object")
    if not _is_whole(facts.get("step")) or facts["step"] != number:
        raise ValueError(f"step {shown(facts.get('step'))} stands where {number} should")


def _check(item: dict[str, Any], checks: dict[str, Check], needed: tuple[str, ...]) -> None:
    for name, check in checks.items():
        if name not in item:
            if name in needed:
                raise ValueError(f"it does not say its {name}")
        elif not check(item[name]):
            raise ValueError(f"{name} cannot be {shown(item[name])}")
