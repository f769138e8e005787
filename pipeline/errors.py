"""What can go wrong, for people: every message is one line that says what is wrong, where, and what to do."""

from __future__ import annotations

import reprlib
from typing import Any

from pipeline.redact import redacted

LONGEST = 1000  # characters of a message: a name in a damaged file may have millions


def one_line(text: str) -> str:
    """Return a text as one printable line, and not too long a one."""
    words = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    half = LONGEST // 2
    return words if len(words) <= LONGEST else f"{words[:half]} ... {words[-half:]}"


class SieveError(Exception):
    """Base of every error svmsieve raises on purpose. ``cli`` prints it as one line and exits with 1.

    Whatever address it names, and whatever a library said of one: no credentials are in it.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*(redacted(part) if isinstance(part, str) else part for part in args))

    def __str__(self) -> str:
        """Return one printable line, whatever the file it speaks of has in it."""
        return one_line(super().__str__())

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the fields, so that an error raised on a worker arrives whole."""
        return _rebuild, (type(self), self.args, self.__dict__.copy())


class SieveWarning(UserWarning):
    """Something to know that is no error. ``cli`` prints it as one line."""


class DataError(SieveError, ValueError):
    """Input that cannot be used, with the file and the line or row where it stands."""

    def __init__(self, problem: str, *, path: str = "", row: int | None = None, unit: str = "row") -> None:
        self.problem, self.path, self.row, self.unit = redacted(problem), redacted(path), row, unit
        where = ", ".join(part for part in (path, f"{unit} {row}" if row is not None else "") if part)
        super().__init__(f"{where}: {problem}" if where else problem)


class NoRowsError(DataError):
    """A file without rows."""


class DatasetError(SieveError, ValueError):
    """A data set directory that is unfinished, damaged, locked or not one at all."""


class RegistryError(SieveError, LookupError):
    """A name that ``datasets.yaml`` does not have, or an entry that cannot be used as it stands."""


class FetchError(SieveError, OSError):
    """A download that failed or whose content is not what was recorded."""


class EngineError(SieveError, RuntimeError):
    """A pass that could not run: an unknown scheduler, a cluster that does not answer, a lost worker."""


class KeptLostError(EngineError):
    """What workers kept from call to call is lost, because one of them is: it has to be made again."""


class SpecError(SieveError, ValueError):
    """A setting that has no meaning, or two that exclude each other."""


class SettingError(SieveError, TypeError):
    """A keyword that a function does not have; the message names the nearest one."""


class MissingError(SieveError, ImportError):
    """A package that is needed for what was asked, and is not installed."""


class RunError(SieveError, ValueError):
    """A run directory that is locked, damaged, unfinished or belongs to other data or settings."""


class JobError(SieveError, ValueError):
    """A job.yaml that says something else than it should, or a nightly store that cannot be used."""


class OutputError(SieveError, OSError):
    """A result that cannot be written where the user wants it."""


class BudgetError(SieveError, MemoryError):
    """A job that cannot fit into the memory it may use."""


class SolverError(SieveError, RuntimeError):
    """A problem that a solver cannot express or has no memory for."""


def shown(value: object) -> str:
    """Return a value for a message: a few dozen characters, however long it is."""
    try:
        return reprlib.repr(redacted(value) if isinstance(value, str) else value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return f"a {type(value).__name__} of thousands of digits"


def _rebuild(kind: type[SieveError], args: tuple[Any, ...], fields: dict[str, Any]) -> SieveError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error
