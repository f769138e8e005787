"""What happens to bytes, to text and to JSON. All of it is a function of the generator it is given."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

BYTES = (0, 1, 9, 10, 13, 32, 34, 35, 44, 45, 46, 48, 57, 58, 92, 127, 128, 255)
NUMBERS = (
    *("0", "-0", "+0", "00", "1", "-1", "+1", "1.", ".5", "1e5", "1E-5", "1e", "1e+", ".", "-", "+", "e5"),
    *("--1", "0x10"),
    *("1e308", "1.8e308", "-1e309", "1e99999", "1e-99999", "5e-324", "2e-324", "1e150", "1.1e150", "1e-200", "1e200"),
    *("nan", "NaN", "-nan", "inf", "-Inf", "infinity", "1_0", "1,5", "1d5", "1f", " 1", "1\x00", "²", "٣"),
    *("9007199254740992", "9007199254740993", "9007199254740993.5", "0.1" + "0" * 30 + "1", "1" * 400),
    *("0." + "3" * 400,),
    *("2147483646", "2147483647", "2147483648", "-2147483648", "4294967296", "9223372036854775808"),
    *("18446744073709551616",),
    *("3.4028235677973366e38", "1.17549435e-38", "4.9406564584124654e-324", "2.2250738585072011e-308"),
    *("1e-400000000000",),
)
TEXTS = ("", " ", "x", "é", "\0", "\n", "a\nb", "../secret", "/dev/zero", "..", "C:\\x", "a" * 3000, "\u202e", "'", '"')
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 255, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64),
    *(-(2**63), 10**30),
    *(0.0, -0.0, 0.5, 1.5, -1.5, 1e308, 5e-324, 1e15, float("inf"), float("-inf"), float("nan"), 10**400),
    *(*TEXTS, "\ud800"),
    *([], {}, [[]], [None], {"": None}, [0, 1], ["a"], {"a": 1}, [[[[[[]]]]]], "1", "1.0", "nan", "0" * 64, "f" * 32),
)


def mutated(chance: Random, data: bytes, tokens: Sequence[bytes] = ()) -> bytes:
    """Change a few things: mostly one, as two damages hide each other."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = (
            chance.choice(_CHANGES)(chance, data) if not tokens or chance.random() < 0.6 else _put(chance, data, tokens)
        )
    return data


def flipped(chance: Random, data: bytes) -> bytes:
    """Flip one bit."""
    at = chance.randrange(len(data) * 8)
    changed = bytearray(data)
    changed[at >> 3] ^= 1 << (at & 7)
    return bytes(changed)


def _flip(chance: Random, data: bytes) -> bytes:
    return flipped(chance, data) if data else data


def _span(chance: Random, data: bytes, longest: int = 64) -> tuple[int, int]:
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.randrange(longest))


def _set(chance: Random, data: bytes) -> bytes:
    start, stop = _span(chance, data, 9)
    return data[:start] + bytes([chance.choice(BYTES)]) * (stop - start) + data[stop:]


def _insert(chance: Random, data: bytes) -> bytes:
    at = chance.randrange(len(data) + 1)
    some = bytes(
        chance.choice(BYTES) if chance.random() < 0.5 else chance.randrange(256) for _ in range(chance.randrange(1, 9))
    )
    return data[:at] + some + data[at:]


def _delete(chance: Random, data: bytes) -> bytes:
    start, stop = _span(chance, data)
    return data[:start] + data[stop:]


def _repeat(chance: Random, data: bytes) -> bytes:
    start, stop = _span(chance, data)
    return data[:stop] + data[start:stop] * chance.choice((1, 1, 2, 50)) + data[stop:]


def _move(chance: Random, data: bytes) -> bytes:
    (start, stop), at = _span(chance, data), chance.randrange(len(data) + 1)
    size = min(stop - start, len(data) - at)
    return data[:at] + data[start : start + size] + data[at + size :]


def _truncate(chance: Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _count(chance: Random, data: bytes) -> bytes:
    """Change a little-endian number of 1 to 8 bytes."""
    width = chance.choice((1, 2, 4, 8))
    if len(data) < width:
        return data
    at = chance.randrange(len(data) - width + 1)
    number = int.from_bytes(data[at : at + width], "little")
    number = chance.choice(
        (number + 1, number - 1, number * 2, number ^ (1 << (8 * width - 1)), -number, 2 ** (8 * width) - 1)
    )
    return data[:at] + (number % (1 << 8 * width)).to_bytes(width, "little") + data[at + width :]


_CHANGES: tuple[Callable[[Random, bytes], bytes], ...] = (
    *(_flip, _set, _insert, _delete, _repeat, _move, _truncate, _count),
)


def _put(chance: Random, data: bytes, tokens: Sequence[bytes]) -> bytes:
    """Put a token in the place of a few bytes."""
    start, stop = _span(chance, data, 6)
    return data[:start] + chance.choice(tokens) + data[stop:]


def mutated_item(chance: Random, item: Any, values: Sequence[Any] = VALUES) -> Any:
    """Return an item of JSON with a few values or keys changed."""
    item = copy.deepcopy(item)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        item = _changed(chance, item, values)
    return item


def mutated_json(chance: Random, item: Any, values: Sequence[Any] = VALUES) -> bytes:
    """Return the text of an item with a few values, keys or bytes changed."""
    text = json.dumps(mutated_item(chance, item, values)).encode()
    if chance.random() < 0.1:
        text = mutated(chance, text)
    if chance.random() < 0.01:
        text = text.replace(b"null", b"[" * 100_000, 1) if b"null" in text else b"[" * 100_000
    return text


def _changed(chance: Random, item: Any, values: Sequence[Any]) -> Any:
    """Change one value somewhere inside: deep ones as often as shallow ones."""
    places = list(_places(item))
    if not places or chance.random() < 0.01:
        return chance.choice(values)
    holder, key = chance.choice(places)
    change = chance.random()
    if change < 0.55:
        holder[key] = _near(chance, holder[key]) if chance.random() < 0.4 else copy.deepcopy(chance.choice(values))
    elif change < 0.7:
        del holder[key]
    elif change < 0.85:
        other_holder, other = chance.choice(places)
        holder[key] = copy.deepcopy(other_holder[other])
    elif isinstance(holder, dict):
        holder[chance.choice((f"{key}x", "", "__class__", key.upper()))] = holder.pop(key)
    else:
        holder.insert(key, copy.deepcopy(holder[key]))
    return item


def _places(item: Any) -> Any:
    keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
    for key in keys:
        yield item, key
        yield from _places(item[key])


def _near(chance: Random, value: Any) -> Any:
    """Return a value of the same type that is a little different."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return chance.choice(
            (value + 1, value - 1, -value, value * 2, value + 0.5 if abs(value) < 1e300 else 0.5, value * 10**20)
        )
    if isinstance(value, float):
        return chance.choice(
            (value * (1 + 2**-52), -value, value / 2, value * 1e300, int(value) if abs(value) < 1e300 else 0)
        )
    if isinstance(value, str) and value:
        at = chance.randrange(len(value))
        letter = chance.choice("0123456789abcdefxyz/.-\0\n é")
        return chance.choice(
            (value[:at] + letter + value[at + 1 :], value[:at], value + letter, value.upper(), value * 2)
        )
    if isinstance(value, list):
        return chance.choice((value + value, value[:1], value[::-1], [value]))
    return [value]
