"""One attempt at a download: append to a partial file what it still lacks.

The problem: a server may have changed the file since the part was begun, may ignore the Range header, or may answer
with another range. Bytes of two versions must never mix: the part goes on only where the server confirms the version
(strong ETag, else Last-Modified) it was begun with; otherwise it starts over.
"""

from __future__ import annotations

import json
import urllib.request as web
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError

from pipeline.data.registry.registry import RegistryEntry
from pipeline.errors import FetchError
from pipeline.events import Listener, Progress
from pipeline.files import write_whole
from pipeline.redact import identity

PIECE = 1 << 20  # bytes a read: what memory a download takes
TIMEOUT = 30.0  # seconds without a byte
AGAIN = "run the same command again to go on from there"


def download(entry: RegistryEntry, state_path: Path, part: IO[bytes], listen: Listener, force: bool) -> None:
    """Append to ``part`` what it lacks, from the version of the file it was begun with, or start over."""
    validator = "" if force else _validator_of_part(state_path, entry.url)
    size = part.tell() if validator else 0
    answer = _ask(entry.url, size, validator)
    if answer.status in (206, 416) and not _continues(answer, size, validator):
        answer.close()
        answer, size = _ask(entry.url, 0, ""), 0
    with answer:
        if answer.status == 416:  # the part lacks nothing
            return
        done = size if answer.status == 206 else 0
        length = answer.headers.get("Content-Length", "")
        total = done + int(length) if length.isdigit() else 0
        if part.tell() and not done:
            part.seek(0)
            part.truncate()
        state = {"url": identity(entry.url), "validator": _validator(answer) or (validator if done else "")}
        write_whole(state_path, json.dumps(state).encode())
        while piece := answer.read(PIECE):
            part.write(piece)
            done += len(piece)
            listen(Progress(f"download {entry.name}", 0, done, total))
    part.flush()
    if total and done != total:
        raise FetchError(f"{entry.url}: the connection ended after {done:,} of {total:,} bytes; {AGAIN}")


def _ask(url: str, size: int, validator: str) -> Any:
    """The server's answer to "the file from byte ``size`` on, if it is still that version, else all of it".

    An answer 416 (there is nothing from that byte on) is returned too, any other failure raised.
    """
    headers = {"User-Agent": "svmsieve", "Accept-Encoding": "identity"}
    if size:
        headers |= {"Range": f"bytes={size}-", "If-Range": validator}
    try:
        return _opener().open(web.Request(url, headers=headers), timeout=TIMEOUT)  # noqa: S310 - see _opener
    except HTTPError as error:
        if size and error.code == 416:
            return error
        raise


def _opener() -> web.OpenerDirector:
    """Opens http, https and file addresses and no other, also after a redirect; proxies as configured."""
    opener = web.OpenerDirector()
    for handler in (
        web.ProxyHandler,
        web.HTTPHandler,
        web.HTTPSHandler,
        web.FileHandler,
        web.UnknownHandler,
        web.HTTPRedirectHandler,
        web.HTTPDefaultErrorHandler,
        web.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


def _continues(answer: Any, size: int, validator: str) -> bool:
    """Whether a partial answer fits our part: same place, and same version (servers may ignore If-Range)."""
    place = answer.headers.get("Content-Range", "")
    fits = place == f"bytes */{size}" if answer.status == 416 else place.startswith(f"bytes {size}-")
    return fits and _validator(answer) in ("", validator)


def _validator(answer: Any) -> str:
    """What names the version: the strong ETag, else Last-Modified, else nothing (then we cannot resume)."""
    tag: str = answer.headers.get("ETag", "")
    return tag if tag.startswith('"') else str(answer.headers.get("Last-Modified", ""))


def _validator_of_part(state_path: Path, url: str) -> str:
    """The version that FILE.part was begun with, if it came from this address."""
    try:
        state = json.loads(state_path.read_text(encoding="utf-8"))
        return str(state["validator"]) if state["url"] == identity(url) else ""
    except (OSError, ValueError, LookupError, TypeError):
        return ""
