"""What was done with every column of a table, for people; and the file of columns that asks for the same."""

from __future__ import annotations

from pipeline.data.tables.encoding import AnyRole, Encoding
from pipeline.data.tables.features import Category, Date, Hashed, Number
from pipeline.data.tables.plan import HASH_BITS, INDICATOR, MAXABS, MEAN, NONE, STANDARD, ZERO

WIDTHS = (24, 42, 16)  # characters at most, of a terminal of some 80
_HOW = "  edit it, and pass --columns columns.yaml (--columns none: numbers as they are)"
Line = tuple[str, str, str]  # column, what became of it, how many features it has
_SCALED = {STANDARD: "standardised", MAXABS: "over its largest", NONE: "as it is"}
_GAPS = {MEAN: "a gap is the mean", ZERO: "a gap is 0", INDICATOR: "gaps: mean, and a feature"}


def report(encoding: Encoding) -> tuple[Line, ...]:
    """Return a line a column: what it is called, what is done with it, how many features that makes."""
    lines = [(encoding.label, "the label", "")]
    for name, what in ((encoding.weight, "the weight"), (encoding.group, "the group")):
        if name is not None:
            lines.append((name, what, ""))
    reasons = {each.column: each.reason for each in encoding.left_out}
    lines += [(name, f"left out, {reasons[name]}" if name in reasons else "an id", "") for name in encoding.ids]
    for role in encoding.roles:
        count = f"{role.width:,}" if role.width else f"{encoding.buckets:,} shared"
        lines.append((" & ".join(role.columns), said(role), count))
    lines += [(name, f"left out, {reason}", "") for name, reason in reasons.items() if name not in encoding.ids]
    return tuple(lines)


def report_lines(encoding: Encoding) -> list[str]:
    """Return the report as lines that fit a terminal, and how to have it otherwise."""
    rows = [("column", "what becomes of it", "features"), *report(encoding)]
    widths = [min(WIDTHS[k], max(len(row[k]) for row in rows)) for k in range(3)]
    lines = [
        f"  {_cut(name, widths[0])}  {_cut(what, widths[1])}  {count:>{widths[2]}}".rstrip()
        for name, what, count in rows
    ]
    total = f"{encoding.n_features:,} features"
    return [*lines, f"{total}; to change it: svmsieve datasets columns DATA > columns.yaml,", _HOW]


def _cut(text: str, width: int) -> str:
    return f"{text:<{width}}" if len(text) <= width else f"{text[: width - 1]}…"


def said(role: AnyRole) -> str:
    """Say what a role does."""
    if isinstance(role, Number):
        return f"{_SCALED[role.scaled]}; {_GAPS[role.missing]}"
    if isinstance(role, Category):
        return f"one-hot: {len(role.values):,} values, others, gaps"
    if isinstance(role, Date):
        return f"date: {', '.join(role.parts)}"
    if isinstance(role, Hashed):
        return "values, hashed"
    high = role.ngrams[1]
    return f"words{f', up to {high} together' if high > 1 else ''}, hashed"


def as_yaml(encoding: Encoding, bias: float) -> str:
    """Return the file of columns that asks for what an encoding does."""
    import yaml  # noqa: PLC0415 - which few commands need

    top: dict[str, object] = {"label": encoding.label}
    for name, value in (("weight", encoding.weight), ("group", encoding.group)):
        if value is not None:
            top[name] = value
    if encoding.ids:
        top["id"] = list(encoding.ids)
    drop = [each.column for each in encoding.left_out if each.column not in encoding.ids]
    if drop:
        top["drop"] = drop
    crosses = [list(role.columns) for role in encoding.roles if len(role.columns) > 1]
    sections: dict[str, dict[str, dict[str, object]]] = {}
    for role in encoding.roles:
        if len(role.columns) == 1:
            heading, settings = _asked(role)
            part = sections.setdefault(heading, {}).setdefault(repr(settings), {"columns": [], **settings})
            part["columns"].append(role.columns[0])  # type: ignore[attr-defined]
    for heading, parts in sections.items():
        top[heading] = next(iter(parts.values())) if len(parts) == 1 else list(parts.values())
    if crosses:
        top["cross"] = crosses
    top |= {"hash_bits": encoding.hash_bits or HASH_BITS, "bias": bias}
    return str(yaml.safe_dump(top, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100))


def _asked(role: AnyRole) -> tuple[str, dict[str, object]]:
    if isinstance(role, Number):
        return "numeric", {"scale": role.scaled, "missing": role.missing}
    if isinstance(role, Category):
        return "categorical", {"encode": "onehot", "min_count": role.min_count}
    if isinstance(role, Hashed):
        return "categorical", {"encode": "hash"}
    if isinstance(role, Date):
        return "dates", {"parts": list(role.parts)}
    return "text", {"ngrams": list(role.ngrams), "encode": "hash"}
