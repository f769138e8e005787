"""Listing inputs: all that is in the directories and matches the patterns of a job, files or not.

A Hive-style folder (``date=2026-11-16``) is looked into; any other folder, a link, a pipe is no input, and is listed as
what it is, so that it can be reported. What is hidden or still being written is left out.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import fsspec

from pipeline.data.stores.located import is_url
from pipeline.errors import DataError
from pipeline.nightly.days import day_of
from pipeline.nightly.ledger import NOT_A_FILE, UNREADABLE, LedgerEntry
from pipeline.redact import identity

_TIMES = ("mtime", "LastModified", "last_modified", "created")
_NOT_READY = (".", "_")
_BEING_WRITTEN = (".tmp", ".part", ".partial")


def list_inputs(inputs: tuple[str, ...]) -> list[LedgerEntry]:
    """List what is there, each name once; what is not a file to read has a status and a note that say so."""
    found: dict[str, LedgerEntry] = {}
    for pattern in inputs:
        for address, facts in _matches(pattern):
            name = identity(address) if is_url(address) else address
            found[name] = replace(_entry(name, facts), address="" if name == address else address)
    return list(found.values())


def _entry(name: str, facts: dict[str, Any]) -> LedgerEntry:
    changed = next((facts[key] for key in _TIMES if facts.get(key) is not None), 0)
    entry = LedgerEntry(name, 0, "", day_of(name, changed).isoformat())
    if facts.get("unlisted"):
        return replace(entry, stamp="folder", status=UNREADABLE, note=f"cannot be listed ({facts['unlisted']})")
    if facts.get("islink"):
        note = "is a symbolic link; copy the file here, or name the folder it is in as an input"
        return replace(entry, stamp="link", status=NOT_A_FILE, note=note)
    if facts["type"] != "file":
        folder = facts["type"] == "directory"
        kind, cure = ("directory", "name a pattern for the files in it") if folder else ("special file", "remove it")
        return replace(entry, stamp=kind, status=NOT_A_FILE, note=f"is a {kind}; {cure}")
    stamp = str(facts.get("ETag") or facts.get("etag") or changed)
    return replace(entry, size=int(facts.get("size") or 0), stamp=stamp)


def _matches(pattern: str) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        fs, inner = fsspec.core.url_to_fs(pattern)
        if glob.has_magic(inner) and not fs.exists(inner):
            listing = list(fs.glob(inner, detail=True).values())
            listing += [] if is_url(pattern) else _left_out(fs, inner)
        elif fs.isdir(inner):
            listing = fs.ls(inner, detail=True)
        else:
            raise FileNotFoundError("no such directory")
        for facts in _with_folders(fs, listing):
            yield fs.unstrip_protocol(facts["name"]) if is_url(pattern) else facts["name"], facts
    except Exception as error:  # file systems of other packages raise what they like
        raise DataError(f"cannot be listed ({_reason(error)}); check inputs in the job", path=pattern) from error


def _left_out(fs: Any, pattern: str) -> Iterator[dict[str, Any]]:
    """Yield the folders on the way to a pattern's files that ``glob`` passes by in silence: links, locked ones.

    Where the folder is missing that all of them are in, nothing can match: that is an error.
    """
    above = pattern.rpartition("/")[0]
    if not glob.has_magic(above):
        fs.ls(above, detail=True)
        return
    yield from _left_out(fs, above)
    for facts in fs.glob(above, detail=True).values():
        if facts.get("islink") and fs.isdir(facts["name"]):
            yield facts
        elif facts["type"] == "directory":
            try:
                fs.ls(facts["name"], detail=True)
            except OSError as error:
                yield facts | {"unlisted": _reason(error)}


def _with_folders(fs: Any, listing: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield what is listed, with the content of Hive-style folders in their place."""
    for facts in sorted(listing, key=lambda facts: str(facts["name"])):
        last = facts["name"].rstrip("/").rpartition("/")[2]
        if last.startswith(_NOT_READY) or last.endswith(_BEING_WRITTEN):
            continue
        if facts["type"] != "directory" or facts.get("islink") or "=" not in last:
            yield facts
            continue
        try:
            inside = fs.ls(facts["name"], detail=True)
        except OSError as error:
            yield facts | {"unlisted": _reason(error)}
            continue
        yield from _with_folders(fs, [each for each in inside if each["name"].rstrip("/") != facts["name"].rstrip("/")])


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__
