"""Stores: what lies behind a URL, reached by fsspec.

The problem: every package behind fsspec raises errors of its own, networks break for a moment, and credentials,
buckets and packages are missing. Here each failure becomes one line with a remedy, and what may pass is tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pipeline.errors import DatasetError, SieveError
from pipeline.redact import redacted

T = TypeVar("T")

PIECE = 16 << 20  # bytes a request: few requests, little memory
PAUSES = (1.0, 4.0)  # seconds before the second and the last attempt
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ImportError, ValueError)
_KEYS = "check the credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws, on every machine"


def is_url(path: str) -> bool:
    """Tell a URL from a local path."""
    return "://" in path


def file_system(url: str) -> tuple[Any, str]:
    """Return the file system behind a URL, and the path in it."""
    import fsspec  # noqa: PLC0415 - slow to import, and most data are here

    return fsspec.core.url_to_fs(url)


def located(path: str) -> RemoteStore | Path:
    """Return what a path or URL names: a store, or a directory of this machine (``file://`` is one)."""
    if not is_url(path):
        return Path(path).absolute()
    store = RemoteStore(path)
    return Path(store.inner) if "file" in store.protocols else store


class RemoteStore:
    """A directory of objects behind a URL; as text it is the URL for people, without credentials."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        with reached(url):
            self.fs, inner = file_system(self.url)
        self.fs.invalidate_cache()  # others may have written there since this process looked
        self.inner = str(inner).rstrip("/")
        self.protocols = (self.fs.protocol,) if isinstance(self.fs.protocol, str) else tuple(self.fs.protocol)

    def __str__(self) -> str:
        return redacted(self.url)

    def address(self, name: str) -> str:
        """Return the URL of an object, for people."""
        first, chain, rest = self.url.partition("::")
        return redacted(f"{first}/{name}{chain}{rest}" if "://" in first else f"{self.url}/{name}")

    def path(self, name: str) -> str:
        """Return what the file system calls an object."""
        return f"{self.inner}/{name}"

    def read(self, name: str) -> bytes | None:
        """Return the content of a small object; None if it is not there."""
        try:
            return bytes(self.patiently(name, lambda: self.fs.cat_file(self.path(name))))
        except DatasetError as error:
            if _is_absent(error.__cause__):
                return None
            raise

    def pieces(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the content of an object of this size; a piece that fails is asked for again, not what came before."""
        for first in range(0, size, PIECE):
            last = min(first + PIECE, size)
            content = self.patiently(name, partial(self.fs.cat_file, self.path(name), start=first, end=last))
            yield content
            if len(content) == size:  # a server that knows no ranges has sent all of it
                return

    def has(self, name: str) -> bool:
        """Tell whether an object is there."""
        return self._info(name) is not None

    def sizes(self) -> dict[str, int]:
        """Return the objects and their sizes, from one listing; none where the file system cannot list."""
        self.fs.invalidate_cache()
        try:
            found = self.fs.ls(self.inner, detail=True)
        except Exception:
            return {}  # whoever needs a size asks for it, and hears what is wrong
        return {
            item["name"].rpartition("/")[2]: int(item["size"])
            for item in found
            if item.get("type") == "file" and item.get("size") is not None
        }

    def size(self, name: str) -> int | None:
        """Return the size of an object; None if it is not there."""
        found = self._info(name)
        if found is None:
            return None
        if found.get("size") is None:
            raise DatasetError(f"{self.address(name)}: the server does not tell its size; copy the data set here first")
        return int(found["size"])

    def _info(self, name: str) -> dict[str, Any] | None:
        try:
            return dict(self.patiently(name, lambda: self.fs.info(self.path(name))))
        except DatasetError as error:
            if _is_absent(error.__cause__):
                return None
            raise

    def patiently(self, name: str, attempt: Callable[[], T]) -> T:
        """Return attempt(); a failure that may pass is tried again a few times, then it is one line."""
        for pause in PAUSES:
            try:
                return attempt()
            except SieveError:
                raise
            except Exception as error:
                if is_final(error):
                    raise trouble(self.address(name), error) from error
                time.sleep(pause)
        with reached(self.address(name)):
            return attempt()


@contextmanager
def reached(url: str) -> Iterator[None]:
    """Turn whatever a file system raises into one line."""
    try:
        yield
    except Exception as error:
        if isinstance(error, SieveError):
            raise
        raise trouble(url, error) from error


def trouble(url: str, error: Exception) -> DatasetError:
    """Return the error for people."""
    return DatasetError(f"{url}: {explain(url, error)}")


def is_final(error: Exception) -> bool:
    """Whether trying again cannot help."""
    return isinstance(error, _FINAL) or _no_keys(error)


def explain(url: str, error: Exception) -> str:
    """Say what is wrong and what to do."""
    is_s3 = url.rpartition("::")[2].startswith(("s3://", "s3a://"))
    remedy = "check the address"
    if isinstance(error, ImportError):
        remedy = "run pip install 'svmsieve[s3]'" if is_s3 else "install that package"
    elif is_s3 and (isinstance(error, PermissionError) or _no_keys(error)):
        remedy = _KEYS
    elif is_s3 and not isinstance(error, FileNotFoundError):
        remedy = "check the address, AWS_ENDPOINT_URL and the network"
    return f"cannot be reached ({reason(error)}); {remedy}"


def reason(error: Exception) -> str:
    """Say in a few words what an error means."""
    if isinstance(error, FileNotFoundError) and not _no_bucket(error):
        return "no such file"
    text = getattr(error, "strerror", None) or str(error)
    return text.splitlines()[0] if text else type(error).__name__


def _no_keys(error: BaseException) -> bool:
    return "credentials" in f"{type(error).__name__} {error}".lower()


def _is_absent(error: BaseException | None) -> bool:
    return isinstance(error, FileNotFoundError | NotADirectoryError) and not _no_bucket(error)


def _no_bucket(error: BaseException) -> bool:
    return "bucket does not exist" in str(error)
