"""npz: CSR arrays that lie about types, shapes and lengths, headers that lie about arrays, and damaged archives."""

from __future__ import annotations

import io
import zipfile
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.lib.npyio import NpzFile

from pipeline.data.reading.base import ReadOptions
from tests.fuzz.mutate import NUMBERS, mutated
from tests.fuzz.reading import CannotBeReadError, Case, FileTarget, random_rules
from tests.fuzz.rows import Row, label_of

WHOLE_FILES = 100
TYPES = (
    *("<f8", ">f8", "<f4", "<f2", "<i8", ">i8", "<i4", "<u8", "<u4", "<i2", "|i1", "|u1", "|b1", "<c16", "<U3", "<U0"),
    *("|S2", "|S0", "|V0", "|V8", "|O", "<M8[s]", "<m8", "f8,i4", "<U1000", "<f16"),
)
LENGTHS = (-1, 0, 1, 2, 5, 2**31, 2**40, 2**62, 2**63, 2**64, 10**30, 1.5, None, "3", True)
INTEGERS = (-(2**63), -(2**31), -1, 0, 1, 2, 7, 2**31 - 1, 2**31, 2**32 + 1, 2**62, 2**63 - 1)


class Npz(FileTarget):
    """``data``, ``indices``, ``indptr``, ``shape``, ``y`` and perhaps ``weight``."""

    name = "npz"
    share = 2

    def prepare(self, folder: Path) -> None:
        """Make whole files to be damaged."""
        super().prepare(folder)
        chance = Random(self.name)
        self.files = [(arrays, saved(chance, arrays)) for arrays in (_arrays(chance) for _ in range(WHOLE_FILES))]

    def make(self, chance: Random) -> Case:
        """Make a file."""
        arrays, whole = chance.choice(self.files)
        kind, rules = chance.random(), random_rules(chance, 5)
        if kind < 0.1:
            return Case("rows.npz", whole, lambda: slow_rows(arrays, False), whole=True)
        if kind < 0.3:
            return Case("rows.npz", with_a_header(chance, arrays), None, ReadOptions(rules=rules))
        if kind < 0.31:
            return Case("rows.npz", chance.choice((b"PK\x03\x04", b"PK\x05\x06", b"")) + chance.randbytes(100))
        content = saved(chance, lying(chance, arrays)) if kind < 0.65 else mutated(chance, whole)
        rows = partial(_slow, content, rules.unlabelled)
        return Case("rows.npz", content, rows, ReadOptions(rules=rules), base=rules.base or 0)


def _arrays(chance: Random) -> dict[str, np.ndarray]:
    n, d = chance.randrange(2, 7), chance.randrange(1, 6)
    chosen = [sorted(chance.sample(range(d), chance.randrange(d + 1))) for _ in range(n)]
    arrays = {
        "data": np.array([chance.gauss(0, 1) for row in chosen for _ in row]),
        "indices": np.array([j for row in chosen for j in row], np.int32),
        "indptr": np.cumsum([0, *map(len, chosen)], dtype=chance.choice((np.int32, np.int64))),
        "shape": np.array([n, d]),
        "y": _labels(chance, n),
    }
    if chance.random() < 0.3:
        arrays["weight"] = np.array([chance.random() + 0.5 for _ in range(n)])
    if chance.random() < 0.3:
        arrays["format"] = np.array(chance.choice(("csr", b"csr")))
    return arrays


def _labels(chance: Random, n: int) -> np.ndarray:
    labels = np.array(chance.choice(([0, 1], [1.0, -1.0], ["a", "b"], [b"x", b"y"], [True, False], [3, 1, 2])))
    return labels[np.arange(n) % labels.size]


def saved(chance: Random, arrays: dict[str, np.ndarray]) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if chance.random() < 0.3 else np.savez)(stream, **arrays)
    return stream.getvalue()


def lying(chance: Random, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Change a value, the type, the length or the shape of one array, or leave it out."""
    name = chance.choice(list(arrays))
    array, change = arrays[name], chance.random()
    with np.errstate(all="ignore"):
        if change < 0.5 and array.dtype.kind in "iufb":
            array = array.copy()
            wanted: Any = chance.choice(INTEGERS)
            if array.dtype.kind == "f":
                wanted = float(chance.choice([number for number in NUMBERS if number.isascii() and _is_float(number)]))
            if array.size:
                array.flat[chance.randrange(array.size)] = np.array(wanted).astype(array.dtype)
        elif change < 0.7:
            array = _cast(array, chance.choice(TYPES))
        elif change < 0.8:
            array = chance.choice((array[:-1], np.concatenate([array, array]), array[:0])) if array.ndim else array
        elif change < 0.9:
            array = chance.choice((array.reshape(-1, 1), array.reshape(1, -1), np.resize(array, ())))
    changed = arrays | {name: array}
    if change >= 0.9:
        del changed[name]
    return changed


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _cast(array: np.ndarray, kind: str) -> np.ndarray:
    try:
        found = array.astype(kind)
    except (ValueError, TypeError):
        return np.zeros(array.shape, kind) if "O" not in kind else np.zeros(array.shape)
    return found if not found.dtype.hasobject else array


def with_a_header(chance: Random, arrays: dict[str, np.ndarray]) -> bytes:
    """Write the archive with a header of one array that says something else than its bytes."""
    stream, name = io.BytesIO(), chance.choice(list(arrays))
    with zipfile.ZipFile(stream, "w") as archive:
        for key, array in arrays.items():
            entry = io.BytesIO()
            npy.write_array(entry, array)
            content = entry.getvalue()
            if key == name:
                start = 10 + int.from_bytes(content[8:10], "little")
                content = _header(chance, array, content[:start]) + content[start:]
            archive.writestr(zipfile.ZipInfo(f"{key}.npy"), content)  # without the time of day: the same every time
    return stream.getvalue()


def _header(chance: Random, array: np.ndarray, header: bytes) -> bytes:
    if chance.random() < 0.4:
        return mutated(chance, header)
    facts: dict[str, Any] = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    key = chance.choice(list(facts))
    if key == "descr":
        facts[key] = chance.choice((*TYPES, 3, None, [("a", "<f8")], "", "x", [], "<f8" * 1000))
    elif key == "shape":
        length: Any = chance.choice(LENGTHS)
        facts[key] = chance.choice(((length,), (length, 1), (1, length), length, (), [length]))
    else:
        facts[key] = chance.choice((True, 1, None, "x"))
    if chance.random() < 0.1:
        facts["more"] = 1
    text = (repr(facts) + "\n").encode("latin1")
    version = chance.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    size = len(text).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + size + text


def _slow(content: bytes, unlabelled: bool) -> list[Row]:
    return slow_rows(_loaded(content, unlabelled), unlabelled)


def _loaded(content: bytes, unlabelled: bool) -> dict[str, np.ndarray]:
    try:
        with NpzFile(io.BytesIO(content), own_fid=True) as stored:  # np.load wants the archive's first bytes, too
            return {
                name: stored[name] for name in stored.files if name in (*_NEEDED, *([] if unlabelled else ["weight"]))
            }
    except Exception as error:  # NumPy and zipfile raise what they like
        raise CannotBeReadError(f"{type(error).__name__} {error}") from error


_NEEDED = ("data", "indices", "indptr", "shape", "y")


def slow_rows(arrays: dict[str, np.ndarray], unlabelled: bool) -> list[Row]:
    """Read CSR arrays entry by entry; rows to be scored (``unlabelled``) need no y, and no weight counts."""
    if unlabelled and arrays.get("shape", np.zeros(0)).shape == (2,):
        arrays = arrays | {"y": np.zeros(int(arrays["shape"][0]))}
        arrays.pop("weight", None)
    if not set(_NEEDED) <= set(arrays):
        raise CannotBeReadError("an array is missing")
    if arrays["shape"].shape != (2,) or any(arrays[name].ndim > 1 for name in arrays):
        raise CannotBeReadError("an array has another shape")
    indptr = np.atleast_1d(arrays["indptr"]).tolist()
    indices, data, y = (np.atleast_1d(arrays[name]).tolist() for name in ("indices", "data", "y"))
    n = int(arrays["shape"][0])
    weight = np.atleast_1d(arrays["weight"]).tolist() if "weight" in arrays else [1.0] * len(y)
    if len(indptr) != n + 1 or len(y) != n or len(weight) != n or indptr[0] != 0 or sorted(indptr) != indptr:
        raise CannotBeReadError("the arrays do not agree")
    if len(indices) != len(data) or indptr[-1] > len(data) or any(j < 0 for j in indices[: indptr[-1]]):
        raise CannotBeReadError("the arrays do not agree")
    labels = [label_of(v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v)) for v in y]
    if arrays["y"].dtype.kind == "b":
        labels = [int(v) for v in y]
    return [
        Row(labels[i], [(indices[k], float(data[k])) for k in range(indptr[i], indptr[i + 1])], float(weight[i]))
        for i in range(n)
    ]
