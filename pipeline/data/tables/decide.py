"""From what is asked and what was found to what is done: the encoding.

auto   numbers            standardised; a gap is the mean, and a feature of its own where there are gaps
       text, truth values a feature a value, hashed above 100,000 of them; its words, where values are long
       dates              hour (where there is a time), weekday, month
       left out           the same in every row; empty; text that is different in every row, which is an id (so are
                          whole numbers in a column that is called one); what is neither number, text nor date
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping

from pipeline.data.tables.encoding import AnyRole, Encoding, LeftOutColumn
from pipeline.data.tables.features import Category, Date, Hashed, Number, valued
from pipeline.data.tables.plan import (
    AUTO,
    HASH,
    INDICATOR,
    MAXABS,
    MEAN,
    ONEHOT,
    STANDARD,
    ZERO,
    Categorical,
    Dates,
    Numeric,
    TablePlan,
    Text,
    Treatment,
)
from pipeline.data.tables.survey import BOOLEAN, DATE, EMPTY, NUMBER, OTHER, TEXT, UNTYPED, ColumnFound, Question
from pipeline.data.tables.tally import LONGEST_VALUE
from pipeline.data.tables.words import Words
from pipeline.errors import DataError

FREQUENT = 5_000  # names of hashed values that are kept, of all columns together: some 100 kB
FEW_ROWS = 20  # with fewer, text that is different in every row need not be an id
DIGITS = 12  # of what is learnt of numbers
AN_ID = "an id: different in every row"
_CALLED_ID = re.compile(r"(?:^|[^a-z])(?:id|uuid|guid|key|rowid|index)$", re.IGNORECASE)
Columns = tuple[str, ...]  # one, or several that count together


def questions(plan: TablePlan, kinds: Mapping[str, str]) -> dict[Columns, Question]:
    """Return what has to be found out of every column, and of those that count together."""
    asked = dict(plan.treatments)
    found: dict[Columns, Question] = {}
    for name, kind in kinds.items():
        if name in plan.drop or name in plan.ids or (plan.others != AUTO and name not in asked):
            continue
        found[(name,)] = _question(name, kind, asked.get(name))
    for names in plan.crosses:
        found[names] = Question(names, TEXT, values=True)
    return found


def _question(name: str, kind: str, asked: Treatment | None) -> Question:
    if isinstance(asked, Numeric):
        return Question((name,), kind, numbers=True)
    if isinstance(asked, Categorical):
        return Question((name,), kind, values=True)
    if isinstance(asked, Dates):
        return Question((name,), kind, dates=True)
    if isinstance(asked, Text):
        return Question((name,), kind, words=asked.ngrams)
    if kind in (EMPTY, OTHER):
        return Question((name,), kind)
    untyped = kind == UNTYPED
    return Question(
        (name,),
        kind,
        numbers=kind == NUMBER or untyped,
        dates=kind in (DATE, TEXT) or untyped,
        values=kind in (TEXT, BOOLEAN) or untyped or (kind == NUMBER and bool(_CALLED_ID.search(name))),
    )


def decide(plan: TablePlan, kinds: Mapping[str, str], found: Mapping[Columns, ColumnFound], path: str) -> Encoding:
    """Return the encoding of a table with these columns, of which so much is known."""
    maker = _Maker(plan, found, path)
    asked = dict(plan.treatments)
    for name, kind in kinds.items():
        if name in plan.drop:
            maker.leave(name, "as asked")
        elif name in plan.ids:
            continue
        elif name in asked:
            maker.treat(name, asked[name])
        elif plan.others != AUTO:
            maker.leave(name, "named nowhere (others: drop)")
        else:
            maker.auto(name, kind)
    for names in plan.crosses:
        maker.category(names, Categorical())
    return maker.encoding()


class _Maker:
    """Collects roles and what is left out."""

    def __init__(self, plan: TablePlan, found: Mapping[Columns, ColumnFound], path: str) -> None:
        self.plan, self.found, self.path = plan, found, path
        self.roles: list[AnyRole] = []
        self.left_out: list[LeftOutColumn] = []
        self.ids = list(plan.ids)
        self.frequent: Counter[str] = Counter()

    def encoding(self) -> Encoding:
        """Return all that was decided."""
        if not self.roles:
            reasons = "; ".join(f"{each.column}: {each.reason}" for each in self.left_out[:3])
            problem = f"no column makes a feature ({reasons})" if reasons else "no column but the label"
            raise DataError(f"{problem}; name some with --columns FILE.yaml", path=self.path)
        return Encoding(
            roles=tuple(self.roles),
            label=self.plan.label or "label",
            weight=self.plan.weight,
            group=self.plan.group,
            ids=tuple(self.ids),
            left_out=tuple(self.left_out),
            hash_bits=self.plan.hash_bits,
            frequent=tuple(name for name, _ in sorted(self.frequent.items(), key=lambda x: (-x[1], x[0]))[:FREQUENT]),
            asked=self.plan.digest,
        )

    def leave(self, name: str, reason: str) -> None:
        """Leave a column out."""
        self.left_out.append(LeftOutColumn(name, reason))

    def auto(self, name: str, kind: str) -> None:
        """Do with a column what is usual."""
        found = self.found[(name,)]
        if kind == OTHER:
            self.leave(name, "neither number, text nor date")
        elif kind == EMPTY or found.missing == found.rows:
            self.leave(name, "empty")
        elif (x := found.numbers) is not None and (x.count or kind == NUMBER):
            if not found.infinite and x.low == x.high and not found.missing:
                self.leave(name, "the same in every row")
            elif self._is_id(found) and _CALLED_ID.search(name) and _whole(found):
                self._id(name)
            else:
                self.number(name, Numeric())
        elif found.dates:
            self.date(name, Dates())
        elif found.comma:
            problem = f"column '{name}' has numbers with a comma, such as {found.comma}, which can mean two things"
            cure = "write them with a point, or name it in --columns FILE.yaml as categorical or under drop"
            raise DataError(f"{problem}; {cure}", path=self.path)
        elif found.values is not None and found.values.long:
            self.treat(name, Text())
        elif self._is_id(found):
            self._id(name)
        elif found.values is not None and found.values.all and len(found.values.counts) == 1 and not found.missing:
            self.leave(name, "the same in every row")
        else:
            self.category((name,), Categorical())

    def treat(self, name: str, asked: Treatment) -> None:
        """Do with a column what is asked."""
        if isinstance(asked, Numeric):
            self.number(name, asked)
        elif isinstance(asked, Categorical):
            self.category((name,), asked)
        elif isinstance(asked, Dates):
            self.date(name, asked)
        else:
            self.roles.append(Words(name, asked.ngrams, 1 << self.plan.hash_bits))
            self.frequent.update(self.found[(name,)].words)

    def number(self, name: str, asked: Numeric) -> None:
        """Scale a number."""
        found = self.found[(name,)]
        if found.infinite:
            raise found.infinite
        x, mean, scale = found.numbers, 0.0, 1.0
        if x is None:
            raise DataError(
                f"column '{name}' is not all numbers; name it as categorical, or correct it", path=self.path
            )
        if asked.scale == STANDARD:
            mean, scale = x.centre, x.deviation
        elif asked.scale == MAXABS and x.count:
            scale = max(abs(x.low), abs(x.high))
        missing = asked.missing or (INDICATOR if found.missing else MEAN)
        gap = 0.0 if missing == ZERO else x.centre
        if not all(map(math.isfinite, (mean, scale, gap))):
            problem = f"column '{name}' has numbers up to {max(abs(x.low), abs(x.high)):.3g}, too large to average"
            raise DataError(f"{problem}; divide it, or name it in --columns FILE.yaml under drop", path=self.path)
        if x.low < x.high:
            spread = x.deviation  # infinite where squares are beyond the range
            gap = _short(gap, spread if math.isfinite(spread) else max(abs(x.low), abs(x.high)))
            if asked.scale == STANDARD:
                mean, scale = _short(mean, scale), _short(scale)
        self.roles.append(Number(name, mean, scale or 1.0, gap, missing, asked.scale))

    def category(self, names: tuple[str, ...], asked: Categorical) -> None:
        """Give every value a feature, or a bucket."""
        values = self.found[names].values
        assert values is not None
        hashed = asked.encode == HASH or (asked.encode is None and (not values.all or values.long))
        if asked.encode == ONEHOT and not (values.all and not values.long):
            what = f"values of more than {LONGEST_VALUE} characters" if values.all else "too many values"
            problem = f"column '{' & '.join(names)}' has {what} for a feature each"
            raise DataError(f"{problem}; pass encode: hash for it", path=self.path)
        if hashed:
            self.roles.append(Hashed(names, 1 << self.plan.hash_bits))
            top = Counter(values.counts).most_common(FREQUENT)
            self.frequent.update({valued(names, text): count for text, count in top})
            return
        kept = sorted(text for text, count in values.counts.items() if count >= asked.min_count)
        self.roles.append(Category(names, tuple(kept), asked.min_count))

    def date(self, name: str, asked: Dates) -> None:
        """Split a date."""
        found = self.found[(name,)]
        if not found.dates and found.missing < found.rows:
            problem = f"column '{name}' is not all dates (2026-01-31, or 2026-01-31T18:30:00)"
            raise DataError(f"{problem}; name it as categorical, or correct it", path=self.path)
        usual = (*(("hour",) if found.times else ()), "weekday", "month")
        self.roles.append(Date(name, asked.parts or usual))

    def _id(self, name: str) -> None:
        self.ids.append(name)
        self.leave(name, AN_ID)

    @staticmethod
    def _is_id(found: ColumnFound) -> bool:
        values = found.values
        return values is not None and not values.twice and found.rows - found.missing > FEW_ROWS


def _whole(found: ColumnFound) -> bool:
    """Tell whether the values of a column, as far as they are remembered, are whole numbers."""
    return found.values is not None and all(text.lstrip("+-").isdigit() for text in found.values.counts)


def _short(number: float, spread: float = 0.0) -> float:
    """Return a number without its last bits, which depend on how the rows were cut into partitions.

    Those of a mean near 0 are what is small beside the ``spread``.
    """
    size = max(abs(number), spread)
    return round(number, DIGITS - 1 - math.floor(math.log10(size))) if size else number
