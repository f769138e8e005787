"""Downloads against a real server on the loopback: whole, resumed, restarted, refused, altered."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from pipeline.data.cache import cache_directory
from pipeline.data.registry import download
from pipeline.data.registry.download import PIECE
from pipeline.data.registry.fetch import fetch
from pipeline.data.registry.registry import RegistryEntry, find_entry
from pipeline.errors import FetchError, RegistryError
from pipeline.events import Event, Progress

BODY = np.random.default_rng(7).bytes(2 * PIECE + 12_345)
OTHER = np.random.default_rng(8).bytes(len(BODY) - 99)


@dataclass
class Shelf:
    """What the server holds and how well it behaves; ``asked`` is what clients sent."""

    port: int = 0
    body: bytes = BODY
    headers: dict[str, str] = field(default_factory=lambda: {"ETag": '"one"'})
    ranges: bool = True
    heeds_if_range: bool = True
    cut_after: int | None = None
    redirect: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)

    def entry(self, sha256: str = "") -> RegistryEntry:
        url = f"http://127.0.0.1:{self.port}/data/tiny.bz2"
        return RegistryEntry(name="tiny", kind="download", url=url, sha256=sha256)

    def last_range(self) -> str | None:
        return self.asked[-1].get("Range")


def handler_of(shelf: Shelf) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shelf.asked.append(dict(self.headers))
            start = self.start_asked_for()
            if shelf.redirect:
                self.answer(302, {"Location": shelf.redirect}, b"")
            elif not self.path.endswith("tiny.bz2"):
                self.answer(404, {}, b"no such file")
            elif start is None:
                self.answer(200, shelf.headers, shelf.body)
            elif start >= len(shelf.body):
                self.answer(416, {"Content-Range": f"bytes */{len(shelf.body)}"}, b"")
            else:
                place = f"bytes {start}-{len(shelf.body) - 1}/{len(shelf.body)}"
                self.answer(206, shelf.headers | {"Content-Range": place}, shelf.body[start:])

        def start_asked_for(self) -> int | None:
            wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            same = self.headers.get("If-Range") in shelf.headers.values() or not shelf.heeds_if_range
            return int(wanted[1]) if wanted and shelf.ranges and same else None

        def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # the client may hang up in the middle
                self.wfile.write(body[: shelf.cut_after])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Keep the test output clean."""

    return Handler


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    shelf = Shelf()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler_of(shelf)) as server:
        shelf.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield shelf
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def broken_download(shelf: Shelf, directory: Path, cut_after: int = PIECE + 500) -> None:
    """Leave FILE.part with the first ``cut_after`` bytes, as a broken connection does."""
    shelf.cut_after = cut_after
    with pytest.raises(FetchError, match=f"ended after {cut_after:,} of {len(BODY):,} bytes; run the same"):
        fetch(shelf.entry(), directory)
    shelf.cut_after = None
    assert names(directory) == ["tiny.bz2.part", "tiny.bz2.part.json"]
    assert (directory / "tiny.bz2.part").read_bytes() == BODY[:cut_after]


def test_whole_download(shelf: Shelf, tmp_path: Path) -> None:
    events: list[Event] = []
    path = fetch(shelf.entry(), tmp_path / "new" / "cache", events.append)
    assert path == tmp_path / "new" / "cache" / "tiny.bz2"
    assert path.read_bytes() == BODY
    assert names(path.parent) == ["tiny.bz2", "tiny.bz2.sha256"]
    record = (path.parent / "tiny.bz2.sha256").read_text()
    assert record.startswith(f"{hashlib.sha256(BODY).hexdigest()}  tiny.bz2\n")
    subprocess.run(["sha256sum", "--check", "--strict", "tiny.bz2.sha256"], cwd=path.parent, check=True)
    done = [event.done for event in events if isinstance(event, Progress) and event.stage == "download tiny"]
    assert done == [PIECE, 2 * PIECE, len(BODY)]
    assert {event.total for event in events if isinstance(event, Progress)} == {len(BODY)}


def test_a_broken_download_is_resumed(shelf: Shelf, tmp_path: Path) -> None:
    broken_download(shelf, tmp_path, PIECE + 500)
    events: list[Event] = []
    path = fetch(shelf.entry(), tmp_path, events.append)
    assert shelf.asked[-1]["Range"] == f"bytes={PIECE + 500}-"
    assert shelf.asked[-1]["If-Range"] == '"one"'
    assert path.read_bytes() == BODY
    assert names(tmp_path) == ["tiny.bz2", "tiny.bz2.sha256"]
    assert events[0] == Progress("download tiny", 0, 2 * PIECE + 500, len(BODY))


def test_resume_by_date_where_there_is_no_strong_tag(shelf: Shelf, tmp_path: Path) -> None:
    shelf.headers = {"ETag": 'W/"weak"', "Last-Modified": "Mon, 27 Jan 2014 12:00:00 GMT"}
    broken_download(shelf, tmp_path)
    assert fetch(shelf.entry(), tmp_path).read_bytes() == BODY
    assert shelf.asked[-1]["If-Range"] == "Mon, 27 Jan 2014 12:00:00 GMT"


def test_without_any_version_a_broken_download_starts_over(shelf: Shelf, tmp_path: Path) -> None:
    shelf.headers = {}
    broken_download(shelf, tmp_path)
    assert fetch(shelf.entry(), tmp_path).read_bytes() == BODY
    assert shelf.last_range() is None


@pytest.mark.parametrize("heeds_if_range", [True, False])
def test_a_file_that_changed_on_the_server_starts_over(shelf: Shelf, tmp_path: Path, heeds_if_range: bool) -> None:
    broken_download(shelf, tmp_path)
    shelf.body, shelf.headers, shelf.heeds_if_range = OTHER, {"ETag": '"two"'}, heeds_if_range
    assert fetch(shelf.entry(), tmp_path).read_bytes() == OTHER


def test_a_part_from_another_address_starts_over(shelf: Shelf, tmp_path: Path) -> None:
    broken_download(shelf, tmp_path)
    state = tmp_path / "tiny.bz2.part.json"
    state.write_text(json.dumps({"url": "http://elsewhere.org/tiny.bz2", "validator": '"one"'}))
    assert fetch(shelf.entry(), tmp_path).read_bytes() == BODY
    assert shelf.last_range() is None


def test_a_server_without_ranges_starts_over(shelf: Shelf, tmp_path: Path) -> None:
    broken_download(shelf, tmp_path)
    shelf.ranges = False
    assert fetch(shelf.entry(), tmp_path).read_bytes() == BODY
    assert shelf.last_range() is not None


@pytest.mark.parametrize("extra", [b"", b"too long"])
def test_a_part_that_lacks_nothing_is_finished_or_thrown_away(shelf: Shelf, tmp_path: Path, extra: bytes) -> None:
    broken_download(shelf, tmp_path)
    (tmp_path / "tiny.bz2.part").write_bytes(BODY + extra)
    before = len(shelf.asked)
    assert fetch(shelf.entry(), tmp_path).read_bytes() == BODY
    assert [headers.get("Range") for headers in shelf.asked[before:]] == (
        [f"bytes={len(BODY)}-"] if not extra else [f"bytes={len(BODY) + len(extra)}-", None]
    )


def test_ctrl_c_leaves_the_part_for_the_next_call(shelf: Shelf, tmp_path: Path) -> None:
    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(shelf.entry(), tmp_path, interrupt)
    assert (tmp_path / "tiny.bz2.part").stat().st_size == PIECE
    assert fetch(shelf.entry(), tmp_path).read_bytes() == BODY
    assert shelf.last_range() == f"bytes={PIECE}-"


def test_the_second_fetch_downloads_nothing(shelf: Shelf, tmp_path: Path) -> None:
    first = fetch(shelf.entry(), tmp_path)
    assert fetch(shelf.entry(), tmp_path) == first
    assert len(shelf.asked) == 1


def test_an_altered_file_is_detected_and_force_replaces_it(shelf: Shelf, tmp_path: Path) -> None:
    path = fetch(shelf.entry(), tmp_path)
    path.write_bytes(OTHER)
    found, recorded = (hashlib.sha256(body).hexdigest()[:12] for body in (OTHER, BODY))
    message = rf"tiny\.bz2 is not .*is {found}\.\.\., tiny\.bz2\.sha256 says {recorded}\.\.\.; use --force"
    with pytest.raises(FetchError, match=message):
        fetch(shelf.entry(), tmp_path)
    assert path.read_bytes() == OTHER
    assert fetch(shelf.entry(), tmp_path, force=True).read_bytes() == BODY


def test_a_file_without_a_record_is_not_touched(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "tiny.bz2").write_bytes(BODY)
    with pytest.raises(FetchError, match=r"has no record tiny\.bz2\.sha256 .*`svmsieve ingest`, or use --f"):
        fetch(shelf.entry(), tmp_path)
    known = shelf.entry(sha256=hashlib.sha256(BODY).hexdigest())
    assert fetch(known, tmp_path) == fetch(shelf.entry(), tmp_path)
    assert not shelf.asked


def test_the_same_file_name_from_another_address_is_not_mistaken(shelf: Shelf, tmp_path: Path) -> None:
    fetch(shelf.entry(), tmp_path)
    namesake = RegistryEntry(name="namesake", kind="download", url="http://elsewhere.org/tiny.bz2")
    with pytest.raises(FetchError, match=r"came from http://127.*, not http://elsewhere\.org/tiny\.bz2: use"):
        fetch(namesake, tmp_path)


def test_a_download_must_match_the_registry(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"the registry says 000000000000\.\.\.; the download was thrown"):
        fetch(shelf.entry(sha256="0" * 64), tmp_path)
    assert names(tmp_path) == []
    fetch(shelf.entry(sha256=hashlib.sha256(BODY).hexdigest()), tmp_path)
    with pytest.raises(FetchError, match=r"the registry says 000000000000\.\.\.; use --force"):
        fetch(shelf.entry(sha256="0" * 64), tmp_path)


def failure(entry: RegistryEntry, directory: Path) -> str:
    with pytest.raises(FetchError) as caught:
        fetch(entry, directory)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_file_on_the_server(shelf: Shelf, tmp_path: Path) -> None:
    gone = RegistryEntry(name="gone", kind="download", url=f"http://127.0.0.1:{shelf.port}/gone")
    message = failure(gone, tmp_path)
    assert "HTTP 404 Not Found; check url of 'gone' in the registry, or download it elsewhere" in message
    assert names(tmp_path) == []


def test_a_refused_connection(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    message = failure(RegistryEntry(name="a", kind="download", url=f"http://127.0.0.1:{port}/a"), tmp_path)
    assert "(Connection refused); check address and network, or download it elsewhere" in message


def test_an_unknown_host(tmp_path: Path) -> None:
    message = failure(RegistryEntry(name="a", kind="download", url="http://nowhere.invalid/a"), tmp_path)
    assert "cannot find the host nowhere.invalid; check the network, or download it elsewhere" in message


def test_a_server_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/a"
        message = failure(RegistryEntry(name="a", kind="download", url=url), tmp_path)
    assert "no answer from 127.0.0.1 in 0.1 s; try again later, or download it elsewhere" in message


def test_a_full_disk(shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.data.registry.fetch._no_link", os.open)
    (tmp_path / "tiny.bz2.part").symlink_to("/dev/full")
    assert failure(shelf.entry(), tmp_path).startswith(f"{tmp_path}: the disk is full; free some space")


def test_a_directory_that_is_a_file(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert f"{tmp_path / 'file'}: " in failure(shelf.entry(), tmp_path / "file")


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/tiny.bz2", "file:///etc/hostname"])
def test_a_redirect_to_another_scheme_is_refused(shelf: Shelf, tmp_path: Path, location: str) -> None:
    shelf.redirect = location
    assert shelf.entry().url in failure(shelf.entry(), tmp_path)
    assert "tiny.bz2" not in names(tmp_path)


def test_two_downloads_of_one_file_do_not_mix(shelf: Shelf, tmp_path: Path) -> None:
    with (tmp_path / "tiny.bz2.part").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert "another process is downloading it" in failure(shelf.entry(), tmp_path)
    assert not shelf.asked


def test_a_local_file_is_copied(tmp_path: Path) -> None:
    (tmp_path / "my data.svm").write_text("+1 1:1\n")
    entry = RegistryEntry(name="mine", kind="download", url=(tmp_path / "my data.svm").as_uri())
    path = fetch(entry, tmp_path / "cache")
    assert fetch(entry, tmp_path / "cache") == path
    assert path.name == "my data.svm"
    assert path.read_text() == "+1 1:1\n"
    absent = RegistryEntry(name="absent", kind="download", url=(tmp_path / "absent").as_uri())
    assert "cannot be downloaded (No such file or directory)" in failure(absent, tmp_path / "cache")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (find_entry("breast_cancer"), r"use `svmsieve ingest breast_cancer --out DIR`"),
        (find_entry("url-like"), r"use `svmsieve datasets make url-like --out DIR`"),
        (find_entry("pcmac"), r"'pcmac' has no known public address: download it elsewhere"),
        (RegistryEntry(name="a", kind="download", url="ftp://x.org/a"), r"ftp://x\.org/a is not an address of http"),
    ],
)
def test_what_cannot_be_downloaded_says_what_to_do(tmp_path: Path, entry: RegistryEntry, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        fetch(entry, tmp_path / "cache")
    assert names(tmp_path) == []


def test_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("SVMSIEVE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_directory() == Path("/home/someone/.cache/svmsieve")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/someone")
    assert cache_directory() == Path("/var/cache/someone/svmsieve")
    monkeypatch.setenv("SVMSIEVE_CACHE", "/big/disk")
    assert cache_directory() == Path("/big/disk")
