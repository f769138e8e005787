"""An encoding as JSON, in manifests and run.json: those are input, so every value is checked."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pipeline.data.shards.strict import ANY, UNICODE, Form, Must, fitting, list_of, number_between, one_among
from pipeline.data.shards.strict import whole_between as whole
from pipeline.data.tables.encoding import AnyRole, Encoding, LeftOutColumn
from pipeline.data.tables.features import Category, Date, Hashed, Number
from pipeline.data.tables.plan import GAPS, MOST_HASH_BITS, PARTS, SCALES
from pipeline.data.tables.words import Words

LARGEST = 1.7976931348623157e308  # float64's
LARGEST_COUNT = 1 << 62  # as plans have it
MOST_FEATURES = 2**31 - 2  # indices are int32, and the bias may be one more
_NAMES = list_of(UNICODE, filled=True)
_NAME_OR_NONE = Must(lambda value: value is None or UNICODE.fits(value), "Unicode text or null")
_FINITE = number_between(-LARGEST, LARGEST)
_SCALE = number_between(5e-324, LARGEST)
_FORMS: dict[str, Form] = {
    "number": {
        **{"column": UNICODE, "mean": _FINITE, "scale": _SCALE, "gap": _FINITE},
        **{"missing": one_among(*GAPS), "scaled": one_among(*SCALES)},
    },
    "category": {"columns": _NAMES, "values": list_of(UNICODE), "min_count": whole(1, LARGEST_COUNT)},
    "date": {"column": UNICODE, "parts": list_of(one_among(*PARTS), filled=True)},
    "hashed": {"columns": _NAMES},
    "words": {"column": UNICODE, "ngrams": list_of(whole(1, 5), filled=True)},
}
_TOP: Form = {
    "roles": list_of(ANY, filled=True),
    "label": UNICODE,
    "weight": _NAME_OR_NONE,
    "group": _NAME_OR_NONE,
    "ids": list_of(UNICODE),
    "left_out": list_of(list_of(UNICODE, filled=True)),
    "hash_bits": whole(0, MOST_HASH_BITS),
    "frequent": list_of(UNICODE),
    "asked": UNICODE,
}


def to_json(encoding: Encoding) -> dict[str, Any]:
    """Return plain data."""
    return {
        "roles": [{"role": role.role, **_plain(role)} for role in encoding.roles],
        "label": encoding.label,
        "weight": encoding.weight,
        "group": encoding.group,
        "ids": list(encoding.ids),
        "left_out": [[each.column, each.reason] for each in encoding.left_out],
        "hash_bits": encoding.hash_bits,
        "frequent": list(encoding.frequent),
        "asked": encoding.asked,
    }


def _plain(role: AnyRole) -> dict[str, Any]:
    found = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(role).items()}
    found.pop("buckets", None)
    return found


def from_json(item: object, where: str = "table") -> Encoding:
    """Read what ``to_json`` wrote; ValueError says what cannot be."""
    top = fitting(item, _TOP, where)
    roles = tuple(_role(each, f"{where}.roles[{k}]", top["hash_bits"]) for k, each in enumerate(top["roles"]))
    if any(len(pair) != 2 for pair in top["left_out"]):
        raise ValueError(f"{where}.left_out has an entry that is not a column and a reason")
    left_out = tuple(LeftOutColumn(*pair) for pair in top["left_out"])
    encoding = Encoding(
        roles=roles,
        label=top["label"],
        weight=top["weight"],
        group=top["group"],
        ids=tuple(top["ids"]),
        left_out=left_out,
        hash_bits=top["hash_bits"],
        frequent=tuple(top["frequent"]),
        asked=top["asked"],
    )
    aside = [name for name in (encoding.label, encoding.weight, encoding.group) if name is not None]
    if len({*aside, *encoding.inputs}) < len(aside) + len(encoding.inputs):
        raise ValueError(f"{where} has a column that is two of label, weight, group and feature")
    if encoding.frequent and not encoding.buckets:
        raise ValueError(f"{where}.frequent names what is hashed, and nothing is")
    if not 1 <= encoding.n_features <= MOST_FEATURES:
        raise ValueError(f"{where} has {encoding.n_features} features, not from 1 to {MOST_FEATURES}")
    return encoding


def _role(item: object, where: str, hash_bits: int) -> AnyRole:
    kind = item.get("role") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(kind, str) or kind not in _FORMS:
        raise ValueError(f"{where} is no role that this svmsieve knows")
    facts = fitting({key: value for key, value in item.items() if key != "role"}, _FORMS[kind], where)
    for key in ("columns", "values"):
        if len(set(facts.get(key, ()))) < len(facts.get(key, ())):
            raise ValueError(f"{where}.{key} has an entry twice")
    if kind == "number":
        return Number(**facts | {name: float(facts[name]) for name in ("mean", "scale", "gap")})
    if kind == "category":
        return Category(tuple(facts["columns"]), tuple(facts["values"]), facts["min_count"])
    if kind == "date":
        return Date(facts["column"], tuple(dict.fromkeys(facts["parts"])))
    if kind == "hashed":
        return Hashed(tuple(facts["columns"]), 1 << hash_bits)
    if len(facts["ngrams"]) != 2 or facts["ngrams"][0] > facts["ngrams"][1]:
        raise ValueError(f"{where}.ngrams is not a pair")
    return Words(facts["column"], (facts["ngrams"][0], facts["ngrams"][1]), 1 << hash_bits)
