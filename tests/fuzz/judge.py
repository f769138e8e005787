"""What counts as a failure of a case, and how failures with the same cause are told."""

from __future__ import annotations

import resource
import shutil
import traceback
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from random import Random

import click

from pipeline.errors import SieveError

MOST_MEMORY = 300 << 20  # a case's files have a few kB
_QUIET_BY_DEFAULT = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


class WrongError(Exception):
    """The pipeline accepted something and made of it what it is not; ``kind`` is the same for the same cause."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind, detail)
        self.kind, self.detail = kind, detail


class Target(ABC):
    """One kind of file. ``prepare`` is called once, ``attempt`` for every case with an empty folder of its own.

    ``share`` is its part of a number of cases: quick ones get more. ``names_file`` tells whether an error must name
    the case's file.
    """

    name: str
    share = 1
    names_file = True

    def prepare(self, folder: Path) -> None:  # noqa: B027, most need nothing
        """Make what all cases share."""

    @abstractmethod
    def attempt(self, chance: Random, folder: Path) -> None:
        """Make an input in the folder and use it; raise what the pipeline raises, or WrongError."""


@dataclass(frozen=True)
class Failure:
    """A case that failed: ``kind`` groups those with the same cause, ``detail`` is for whoever looks into it."""

    case: int
    kind: str
    detail: str

    def shown(self) -> str:
        """Return the last line of the detail."""
        lines = self.detail.strip().splitlines() or [""]
        return lines[-1][:200]


def judged(target: Target, seed: int, case: int, home: Path) -> Failure | None:
    """Run a case; return what is wrong with its end, if anything."""
    folder = home / f"case-{case}"
    folder.mkdir()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for quiet in _QUIET_BY_DEFAULT:
                warnings.simplefilter("ignore", quiet)
            target.attempt(Random(f"{target.name} {seed} {case}"), folder)
    except WrongError as error:
        return Failure(case, f"accepted, but {error.kind}", _ascii(error.detail))
    except (SieveError, click.UsageError) as error:
        said = _said(error)
        problem = _problem(said, folder.name if target.names_file else "")
        if problem:
            return Failure(case, f"{problem} ({_place(error)})", _ascii(said))
    except Exception as error:
        return Failure(case, f"{type(error).__name__} ({_place(error)})", _ascii(traceback.format_exc()))
    finally:
        shutil.rmtree(folder)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    return Failure(case, "memory", f"{grown >> 20} MB for one small file") if grown > MOST_MEMORY else None


def _said(error: Exception) -> str:
    try:
        return error.format_message() if isinstance(error, click.ClickException) else str(error)
    except Exception as worse:  # text from a file that is none: Python cannot even copy it
        return f"{type(worse).__name__}\n{worse}"


def _problem(said: str, wanted: str) -> str:
    """Return what is wrong with an error's text: it must be one line, with the wanted name in it."""
    if not said.strip():
        return "an error without a word"
    if len(said.splitlines()) > 1:
        return "an error of several lines"
    if not said.isprintable():
        return "an error with control characters"
    if len(said) > 2000:
        return "an error of more than 2000 characters"
    return "" if wanted in said else "an error that names no file"


def _ascii(text: str) -> str:
    """Return the text in letters that terminals and pipes bear: a file may hold code points that are none."""
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in text)


def _place(error: BaseException) -> str:
    """Return the innermost line of the pipeline on the way to an error: the place to look at."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/pipeline/" in f.filename]
    if not frames:
        return "outside the pipeline"
    last = frames[-1]
    return f"{last.filename.rpartition('/pipeline/')[2]}:{last.lineno} {last.name}"
