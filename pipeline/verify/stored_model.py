"""A model as ``verify`` reads it: every array has the type, the shape and the order that the format promises."""

from __future__ import annotations

import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.errors import RunError

Entries = tuple[np.ndarray, np.ndarray]
DAMAGE = (  # what zipfile, zlib and NumPy's reader of headers (an evaluated literal) raise for damaged bytes
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, TypeError, LookupError),
    *(SyntaxError, tokenize.TokenError, OverflowError, MemoryError),
)


@dataclass(frozen=True)
class Model:
    """A model as it is stored, index and value of what is not zero; w_alpha is w unless it is stored apart.

    ``zero`` and ``upper`` are the verdicts before the solve, a bit a row, the first row in a byte's highest bit.
    """

    c: float
    w: Entries
    alpha: Entries
    w_alpha: Entries
    zero: np.ndarray
    upper: np.ndarray


def read_model(path: Path, n_rows: int, n_features: int) -> Model:
    """Read a model that must fit the data; RunError says what is wrong with it."""
    try:
        with _quiet(), path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            shape = tuple(int(_array(stored, name, np.int64, 0)) for name in ("n_rows", "n_features"))
            if shape != (n_rows, n_features):
                raise ValueError(f"it has {shape[0]} rows and {shape[1]} features, the data {n_rows} and {n_features}")
            w, alpha = _entries(stored, "w", n_features), _entries(stored, "alpha", n_rows)
            w_alpha = _entries(stored, "w_alpha", n_features) if "w_alpha_index" in stored else w
            c = float(_array(stored, "c", np.float64, 0))
            zero, upper = (_bits(stored, name, n_rows) for name in ("zero_bits", "upper_bits"))
    except DAMAGE as error:
        raise RunError(f"the model is missing or damaged ({error})") from error
    return Model(c, w, alpha, w_alpha, zero, upper)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let NumPy say nothing of headers that are none: what they lead to is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _array(stored: Mapping[str, np.ndarray], name: str, dtype: type, dimensions: int) -> np.ndarray:
    found = stored[name]
    if not isinstance(found, np.ndarray):
        raise ValueError(f"{name} is not an array")
    if found.dtype != np.dtype(dtype) or found.ndim != dimensions:
        wanted = f"{np.dtype(dtype).name} in {dimensions} dimensions"
        raise ValueError(f"{name} is {found.dtype.name} in {found.ndim} dimensions, not {wanted}")
    return found


def _entries(stored: Mapping[str, np.ndarray], name: str, size: int) -> Entries:
    index, value = _array(stored, f"{name}_index", np.int64, 1), _array(stored, f"{name}_value", np.float64, 1)
    if index.shape != value.shape or not np.isfinite(value).all():
        raise ValueError(f"{name} is not a list of finite numbers")
    if index.size and (index[0] < 0 or index[-1] >= size or (index[1:] <= index[:-1]).any()):
        raise ValueError(f"the indices of {name} do not ascend from 0 to at most {size - 1}")
    return index, value


def _bits(stored: Mapping[str, np.ndarray], name: str, n_rows: int) -> np.ndarray:
    found = _array(stored, name, np.uint8, 1)
    if found.size != -(-n_rows // 8) or (n_rows % 8 and found[-1] & (0xFF >> n_rows % 8)):
        raise ValueError(f"{name} are not {n_rows} bits")
    return found
