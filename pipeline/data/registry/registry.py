"""Data sets by name: what ``datasets.yaml`` says about them, checked before anything relies on it.

The problem: a name such as ``gisette`` must lead to an address, a format and a shape, and a typing error in a
hand-edited file must be reported as one line with file, entry and field, not as a traceback hours later.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import yaml

from pipeline.errors import RegistryError

KINDS = ("bundled", "download", "synthetic")
SCHEMES = ("http", "https", "file")
TRANSFORMS = ("standardise",)
BUNDLED = ("breast_cancer", "digits", "iris", "wine")
VARIABLE = "SVMSIEVE_DATASETS"


@dataclass(frozen=True)
class Entry:
    """One data set of the registry; an empty text or None means that the file does not say."""

    name: str
    kind: str
    title: str = ""
    paper: str = ""
    rows: int | None = None
    features: int | None = None
    url: str = ""
    format: str = ""
    positive: str | None = None
    columns: tuple[str, ...] = ()
    label_column: str = ""
    licence: str = "not stated"
    sha256: str = ""
    transform: str = ""
    note: str = ""


def find(name: str, path: str | Path | None = None) -> Entry:
    """The entry called ``name``; an unknown name is answered with the closest known ones."""
    registry = load_registry(path)
    if name in registry:
        return registry[name]
    close = difflib.get_close_matches(name, registry, n=3)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    raise RegistryError(f"no data set is called {name!r}: {hint}`svmsieve datasets list` shows all names")


def load_registry(path: str | Path | None = None) -> dict[str, Entry]:
    """All entries by name, from ``path``, else from $SVMSIEVE_DATASETS, else from the packaged file."""
    source = _locate(path)
    content = _read(source)
    if not isinstance(content, dict) or not isinstance(content.get("datasets"), dict):
        raise RegistryError(f"{source}: needs one top-level mapping `datasets:` of name to entry")
    return {name: _entry(source, name, raw) for name, raw in content["datasets"].items()}


def bundled(entry: Entry) -> tuple[np.ndarray, np.ndarray]:
    """The rows (float64) and labels of a set that scikit-learn carries, transformed as the entry asks."""
    if entry.kind != "bundled" or entry.name not in BUNDLED:
        raise RegistryError(
            f"{entry.name!r} (kind {entry.kind}) is not in scikit-learn, which has {', '.join(BUNDLED)}"
        )
    from sklearn import datasets as carried  # noqa: PLC0415 - slow to import, needed here only

    x, y = getattr(carried, f"load_{entry.name}")(return_X_y=True)
    x = np.ascontiguousarray(x, dtype=np.float64)
    return (_standardise(x) if entry.transform == "standardise" else x), np.asarray(y)


def _standardise(x: np.ndarray) -> np.ndarray:
    """Every column to mean 0 and (population) standard deviation 1; a constant column becomes 0."""
    deviation = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _locate(path: str | Path | None) -> Path:
    """The file to read: explicit, else environment, else inside the wheel, else at the top of a checkout."""
    if path is not None:
        return Path(path)
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    here = Path(__file__).resolve()
    packaged = here.with_name("datasets.yaml")
    return packaged if packaged.exists() else here.parents[3] / "datasets.yaml"


def _read(source: Path) -> Any:
    try:
        return yaml.safe_load(source.read_bytes())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}, line {mark.line + 1}" if mark else str(source)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        raise RegistryError(f"{where}: not valid YAML: {problem}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RegistryError(f"{source}: cannot be read: {reason}; check the path or {VARIABLE}") from error


def _entry(source: Path, name: object, raw: object) -> Entry:
    """Check one entry field by field; the first fault is reported as file, entry, field, what to write."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise RegistryError(
            f"{source}, entry {name!r}: a name is text of letters, digits, '.', '_' and '-' (quote a number)"
        )
    where = f"{source}, entry {name}"
    if not isinstance(raw, dict):
        raise RegistryError(f"{where}: must be a mapping of fields such as `kind: download`")
    known = [field.name for field in fields(Entry) if field.name != "name"]
    for key in raw:
        if key not in known:
            raise RegistryError(f"{where}: unknown field {key!r}; known are {', '.join(known)}")
    if "kind" not in raw:
        raise RegistryError(f"{where}: field kind is missing; write one of {', '.join(KINDS)}")
    values = {key: _checked(f"{where}, field {key}", key, value) for key, value in raw.items()}
    entry = Entry(name=name, **values)
    if entry.columns and entry.label_column not in entry.columns:
        raise RegistryError(f"{where}, field label_column: must be one of columns")
    return entry


def _checked(where: str, key: str, value: Any) -> Any:
    """``value`` as the type of its field, or an error that says what the field takes."""
    if key in ("rows", "features"):
        fits, wanted = type(value) is int and value > 0, "a whole number above 0"
    elif key == "columns":
        fits = isinstance(value, list) and bool(value) and all(isinstance(part, str) for part in value)
        value, wanted = (tuple(value) if fits else value), "a list of column names"
    elif key == "positive":
        fits, wanted = type(value) in (str, int, float), "one label, text or number"
        value = str(value)
    elif key in _CHOICES:
        fits, wanted = value in _CHOICES[key], f"one of {', '.join(_CHOICES[key])}"
    elif key == "url":
        fits, wanted = isinstance(value, str) and _is_address(value), f"an address of {', '.join(SCHEMES)}"
    elif key == "sha256":
        value = str(value).lower()
        fits, wanted = re.fullmatch(r"[0-9a-f]{64}", value) is not None, "64 hexadecimal digits"
    else:
        fits, wanted = isinstance(value, str), "text"
    if not fits:
        raise RegistryError(f"{where}: {value!r} is not {wanted}")
    return value


def _is_address(url: str) -> bool:
    try:
        return urlsplit(url).scheme in SCHEMES
    except ValueError:  # for example brackets that do not hold an IPv6 address
        return False


_CHOICES = {"kind": KINDS, "transform": TRANSFORMS}
