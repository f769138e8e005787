"""Decimal text to the nearest float64, exactly as ``float()`` rounds it, inside a Numba kernel.

A decimal is a 64-bit integer times a power of ten. If both are small (mantissa below 2^53, |exponent| at most 22)
one float64 operation is exact (Clinger 1990). Otherwise the Eisel-Lemire method (Lemire, "Number parsing at a
gigabyte per second", 2021) multiplies by a 128-bit approximation of the power, rounded down, and
reports the few cases it cannot settle, which the caller hands to ``float()``.
"""

from __future__ import annotations

import numpy as np

from pipeline.jit import inline

NUMBER = r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity)"  # case does not matter
LOWEST_POWER, HIGHEST_POWER = -342, 308  # 19 digits times less are 0, one digit times more is infinite


def _power_table() -> tuple[np.ndarray, np.ndarray]:
    """The 128 leading bits of 10^q (rounded down) for every q, as two 64-bit halves."""
    high, low = [], []
    for q in range(LOWEST_POWER, HIGHEST_POWER + 1):
        if q >= 0:
            power = 10**q
        else:
            denominator = 10**-q
            power = (1 << (denominator.bit_length() + 128)) // denominator
        shift = power.bit_length() - 128
        bits = power >> shift if shift >= 0 else power << -shift
        high.append(bits >> 64)
        low.append(bits & (2**64 - 1))
    return np.array(high, dtype=np.uint64), np.array(low, dtype=np.uint64)


_HIGH, _LOW = _power_table()
_SMALL = np.array([float(10**k) for k in range(23)])  # exact; a vectorised pow need not be
_U1, _U9, _U32, _U63 = (np.uint64(k) for k in (1, 9, 32, 63))
_NINE_ONES = np.uint64(0x1FF)
_HALF_WORD = np.uint64(0xFFFFFFFF)
_FRACTION = np.uint64((1 << 52) - 1)
_TWO_53 = np.uint64(1 << 53)


@inline
def _multiply(a, b):  # type: ignore[no-untyped-def]
    """Return both halves of the 128-bit product of two 64-bit integers."""
    a_high, a_low = a >> _U32, a & _HALF_WORD
    b_high, b_low = b >> _U32, b & _HALF_WORD
    low_low = a_low * b_low
    middle = a_high * b_low + (low_low >> _U32)
    cross = a_low * b_high + (middle & _HALF_WORD)
    high = a_high * b_high + (middle >> _U32) + (cross >> _U32)
    return high, (cross << _U32) | (low_low & _HALF_WORD)


@inline
def _leading_zeros(x):  # type: ignore[no-untyped-def]
    zeros = np.uint64(0)
    for step in (32, 16, 8, 4, 2, 1):
        if x >> np.uint64(64 - step) == np.uint64(0):
            zeros += np.uint64(step)
            x = x << np.uint64(step)
    return zeros


@inline
def _eisel_lemire(mantissa, power):  # type: ignore[no-untyped-def]
    zeros = _leading_zeros(mantissa)
    mantissa = mantissa << zeros
    exponent = np.int64((217706 * power) >> 16) + 64 + 1023 - np.int64(zeros)
    row = power - LOWEST_POWER
    high, low = _multiply(mantissa, _HIGH[row])
    if (high & _NINE_ONES) == _NINE_ONES and low + mantissa < mantissa:
        more_high, more_low = _multiply(mantissa, _LOW[row])
        merged = low + more_high
        if merged < low:
            high += _U1
        low = merged
        if (high & _NINE_ONES) == _NINE_ONES and low + _U1 == np.uint64(0) and more_low + mantissa < mantissa:
            return 0.0, False
    top = high >> _U63
    bits = high >> (top + _U9)
    exponent -= np.int64(_U1 ^ top)
    if low == np.uint64(0) and (high & _NINE_ONES) == np.uint64(0) and (bits & np.uint64(3)) == _U1:
        return 0.0, False
    bits = (bits + (bits & _U1)) >> _U1
    if bits >= _TWO_53:
        bits = bits >> _U1
        exponent += 1
    if exponent < 1 or exponent >= 0x7FF:
        return 0.0, False
    return np.uint64((np.uint64(exponent) << np.uint64(52)) | (bits & _FRACTION)).view(np.float64), True


@inline
def to_float64(mantissa, power):  # type: ignore[no-untyped-def]
    """Return (mantissa * 10^power rounded to nearest, True), or (0, False) where this method cannot tell."""
    if mantissa == np.uint64(0):
        return 0.0, True
    if mantissa < _TWO_53 and -22 <= power <= 22:
        return (np.float64(mantissa) * _SMALL[power] if power >= 0 else np.float64(mantissa) / _SMALL[-power]), True
    if power < LOWEST_POWER or power > HIGHEST_POWER:
        return 0.0, False
    return _eisel_lemire(mantissa, power)


@inline
def read_number(text, start, end):  # type: ignore[no-untyped-def]
    """Read the decimal text[start:end]; (0, False) if it is not one or needs ``float()`` to decide."""
    at = start
    negative = False
    if at < end and (text[at] == 45 or text[at] == 43):
        negative = text[at] == 45
        at += 1
    mantissa, digits, power, seen = np.uint64(0), 0, 0, 0
    fraction = False
    while at < end:
        c = text[at]
        if 48 <= c <= 57:
            seen += 1
            if mantissa != np.uint64(0) or c != 48:
                digits += 1
            mantissa = mantissa * np.uint64(10) + np.uint64(c - 48)
            power -= 1 if fraction else 0
        elif c == 46 and not fraction:
            fraction = True
        else:
            break
        at += 1
    if seen == 0 or digits > 19:
        return 0.0, False
    if at < end and (text[at] == 101 or text[at] == 69):
        at += 1
        sign = 1
        if at < end and (text[at] == 45 or text[at] == 43):
            sign = -1 if text[at] == 45 else 1
            at += 1
        first, exponent = at, 0
        while at < end and 48 <= text[at] <= 57 and at - first < 5:
            exponent = exponent * 10 + (text[at] - 48)
            at += 1
        if at == first:
            return 0.0, False
        power += sign * exponent
    if at != end:
        return 0.0, False
    value, known = to_float64(mantissa, power)
    return (-value if negative else value), known
