"""What the cells of a column say: numbers, text or moments, whatever Arrow type the file gives them.

Each returns what the distinct cells are, and which of them every row has, so that text is looked at once a value and
not once a row. A cell is missing where it is null, nan, or text that stands for nothing (``NA``). A category has one
spelling, whatever the format and the type: 17, 17.0, "17" and "17.0" are the same ("017" is another), and so are true,
True and TRUE.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.data.reading.columns import codes_of
from pipeline.data.reading.decimals import NUMBER
from pipeline.data.reading.gaps import NOTHING
from pipeline.data.reading.labels import label_text
from pipeline.data.reading.layout import is_numeric, is_text
from pipeline.dataclass import dataclass

MISSING = -1  # the code of a cell that says nothing
BLANKS = " \t"  # around a number, as Arrow reads CSV
_NUMBER = f"^(?:{NUMBER})$"
_COMMA = r"^[+-]?[0-9][0-9.]*,[0-9]+$"
_WHOLE = r"^(-?(?:0|[1-9][0-9]*))\.0+$"  # 17.0, as writers spell whole numbers in a column with gaps
_TRUTH = "^(?:true|false)$"
_DAY = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"[T ]\d{2}:\d{2}(:\d{2}([.,]\d{1,9})?)?"
_MOMENT = rf"^{_DAY}({_CLOCK}(Z|[+-]\d{{2}}(:?\d{{2}})?)?)?$"


@dataclass(frozen=True)
class Coded:
    """A column of n rows: row i has ``values[codes[i]]``, nothing where the code is ``MISSING``."""

    codes: np.ndarray
    values: pa.Array

    @property
    def spelled(self) -> pa.Array:
        """The values as text, in their one spelling; several may have the same."""
        if is_text(self.values.type):
            whole = pc.replace_substring_regex(self.values, _WHOLE, r"\1")
            return pc.if_else(_fits(whole, _TRUTH), pc.ascii_lower(whole), whole)
        return pa.array([_spelled(value) for value in self.values.to_pylist()], pa.string())

    @property
    def texts(self) -> list[str]:
        """The same as a list."""
        return [str(text) for text in self.spelled.to_pylist()]

    @property
    def longest(self) -> int:
        """The number of characters of the longest text."""
        return int(pc.max(pc.utf8_length(self.values)).as_py() or 0) if is_text(self.values.type) else 0

    def counts(self) -> np.ndarray:
        """How many rows have each value."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))

    def first_row(self, value: int) -> int:
        """The first row that has a value, by its code."""
        return int(np.argmax(self.codes == value))

    def spread(self, of_values: np.ndarray, missing: float) -> np.ndarray:
        """Return what every row has, given what each value is."""
        return np.append(of_values, of_values.dtype.type(missing))[self.codes]


def coded(column: pa.Array | pa.ChunkedArray) -> Coded:
    """Return the distinct cells of a column of text, numbers, truth values or moments."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_null(flat.type):
        return Coded(np.full(len(flat), MISSING, np.int32), pa.array([], pa.string()))
    encoded = flat if pa.types.is_dictionary(flat.type) else flat.dictionary_encode()
    encoded.validate(full=True)  # a file may have codes that stand for nothing, or text that is none
    codes = codes_of(encoded, MISSING).astype(np.int32)
    values = encoded.dictionary
    if is_text(values.type):
        values = values.cast(pa.string())
    elif pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    gaps = _gaps(values)
    if gaps.any():
        codes = np.append(np.where(gaps, np.int32(MISSING), np.arange(gaps.size, dtype=np.int32)), np.int32(MISSING))[
            codes
        ]
    return Coded(codes, values)


def _gaps(values: pa.Array) -> np.ndarray:
    """Tell which values say nothing."""
    if is_text(values.type):
        found = pc.is_in(values, pa.array(NOTHING, values.type))
    elif pa.types.is_floating(values.type):
        found = pc.is_nan(values)
    else:
        found = pc.is_null(values)
    return np.asarray(pc.or_kleene(found, pc.is_null(values)).fill_null(True).to_numpy(zero_copy_only=False), bool)


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        return label_text(value)  # type: ignore[arg-type]  # a number, or something that has text
    except TypeError:
        return str(value)


def numbers(column: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, int | None]:
    """Return a column as float64 (nan where a cell is missing), and the first row whose cell is no number."""
    flat = _decoded(column)
    if is_numeric(flat.type) or pa.types.is_boolean(flat.type):
        plain = flat.cast(pa.uint8()) if pa.types.is_boolean(flat.type) else flat
        return plain.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False), None
    cells = coded(flat)
    if not is_text(cells.values.type):
        return np.full(len(flat), np.nan), 0 if len(flat) else None
    trimmed = pc.utf8_trim(cells.values, BLANKS)
    fits = _fits(trimmed, _NUMBER)
    read = pc.if_else(fits, trimmed, pa.scalar("nan")).cast(pa.float64()).to_numpy(zero_copy_only=False)
    row = _first(cells, ~fits.to_numpy(zero_copy_only=False))
    return cells.spread(read, np.nan), row


def comma(column: pa.Array | pa.ChunkedArray) -> str | None:
    """Return the first number with a comma of a column of text in which all that is no number is one: 1,5 or 1,234."""
    values = coded(column).values
    if not is_text(values.type):
        return None
    trimmed = pc.utf8_trim(values.filter(pa.array(~_gaps(values))), BLANKS)
    commas = _fits(trimmed, _COMMA)
    others = pc.or_(commas, _fits(trimmed, _NUMBER))
    found = trimmed.filter(commas) if pc.all(others).as_py() else trimmed[:0]
    return str(found[0]) if len(found) else None


def moments(column: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, int | None]:
    """Return a column of dates as microseconds by the clock on the wall (NaT if missing), and the first row with none.

    Text is ISO 8601: a day, or a day and a time, and the zone behind it is not looked at: 10:00 is 10:00 everywhere. Of
    a column with a zone it is the clock there.
    """
    flat = _decoded(column)
    kind = flat.type.value_type if pa.types.is_dictionary(flat.type) else flat.type
    if pa.types.is_null(kind):
        return np.full(len(flat), np.datetime64("NaT"), "M8[us]"), None
    if is_moment(kind):
        local = pc.local_timestamp(flat) if getattr(kind, "tz", None) else flat
        finer = getattr(kind, "unit", "") == "ns"  # what cannot be said in microseconds is an error, but for fractions
        return local.cast(pa.timestamp("us"), safe=not finer).to_numpy(zero_copy_only=False).astype("M8[us]"), None
    if not is_text(kind):
        return np.full(len(flat), np.datetime64("NaT"), "M8[us]"), 0 if len(flat) else None
    cells = coded(flat)
    trimmed = pc.utf8_trim(cells.values, BLANKS)
    fits = _fits(trimmed, _MOMENT).to_numpy(zero_copy_only=False)
    row = _first(cells, ~fits)
    if row is not None:  # nobody wants the others
        return np.full(len(flat), np.datetime64("NaT"), "M8[us]"), row
    read, fits = _read_moments(trimmed.to_pylist(), fits)
    return np.append(read, np.datetime64("NaT"))[cells.codes], _first(cells, ~fits)


def _read_moments(texts: list[str | None], fits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the moments that texts of the right form are, and which of them are any."""
    known = fits.copy()
    written = [_clock(text) if fit and text else "2000-01-01" for text, fit in zip(texts, known.tolist(), strict=True)]
    try:
        found = np.array(written, "M8[us]")
    except ValueError:  # the 30th of February is among them: one by one
        found = np.full(len(texts), np.datetime64("NaT"), "M8[us]")
        for k, text in enumerate(written):
            try:
                found[k] = np.datetime64(text, "us")
            except ValueError:
                known[k] = False
    found[~known] = np.datetime64("NaT")
    return found, known


def _clock(text: str) -> str:
    """Return day and time of a moment, without fractions of a second and without the zone."""
    return f"{text[:10]}T{text[11 : 19 if text[16:17] == ':' else 16]}" if len(text) > 10 else text


def _first(cells: Coded, wrong: np.ndarray) -> int | None:
    """Return the first row whose value is wrong, if any row has one."""
    rows = np.flatnonzero(np.append(wrong, False)[cells.codes])
    return int(rows[0]) if rows.size else None


def _fits(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.fill_null(pc.match_substring_regex(texts, pattern, ignore_case=True), False)


def _decoded(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece; one of codes only if they stand for text."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_dictionary(flat.type) or is_text(flat.type.value_type):
        return flat
    flat.validate(full=True)
    return flat.cast(flat.type.value_type)


def is_moment(kind: pa.DataType) -> bool:
    """Whether a column holds dates."""
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)
