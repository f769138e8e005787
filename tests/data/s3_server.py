"""A server on the loopback interface that speaks as much of the S3 protocol as s3fs needs for shards.

ListObjectsV2, GetObject (with Range), HeadObject, PutObject and DeleteObject, with the errors of missing buckets, keys
and credentials. Requests are recorded; ``fault`` may answer one with a failure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

KEY, SECRET = "tester", "secret"
MESSAGES = {
    "NoSuchBucket": (404, "The specified bucket does not exist"),
    "NoSuchKey": (404, "The specified key does not exist."),
    "AccessDenied": (403, "Access Denied"),
    "SlowDown": (503, "Please reduce your request rate."),
    "InternalError": (500, "We encountered an internal error."),
}


class S3Server(ThreadingHTTPServer):
    """Buckets in memory. ``fault(method, key)`` returns the code of an error, ``cut``, or None."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.buckets: dict[str, dict[str, bytes]] = {}
        self.requests: list[tuple[str, str]] = []
        self.fault: Callable[[str, str], str | None] = lambda method, key: None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def variables(self) -> dict[str, str]:
        """What a user sets to reach it."""
        keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}
        return keys | {"AWS_ENDPOINT_URL": self.endpoint, "AWS_EC2_METADATA_DISABLED": "true"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: S3Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.handle_one_of("GET")

    def do_HEAD(self) -> None:
        self.handle_one_of("HEAD")

    def do_PUT(self) -> None:
        self.handle_one_of("PUT")

    def do_DELETE(self) -> None:
        self.handle_one_of("DELETE")

    def handle_one_of(self, method: str) -> None:
        address = urlsplit(self.path)
        name, _, key = unquote(address.path).lstrip("/").partition("/")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((method, key or f"list {name}"))
        fault = self.server.fault(method, key)
        if fault and fault != "cut":
            self.refuse(fault)
        elif f"Credential={KEY}/" not in self.headers.get("Authorization", ""):
            self.refuse("AccessDenied")
        elif name not in self.server.buckets:
            self.refuse("NoSuchBucket")
        elif not key:
            self.list(name, parse_qs(address.query))
        elif method == "PUT":
            assert "aws-chunked" not in self.headers.get("Content-Encoding", ""), "not spoken here"
            self.server.buckets[name][key] = body
            self.answer(200, {"ETag": '"0"'})
        elif method == "DELETE":
            self.server.buckets[name].pop(key, None)
            self.answer(204)
        elif key not in self.server.buckets[name]:
            self.refuse("NoSuchKey")
        else:
            self.give(self.server.buckets[name][key], cut=fault == "cut")

    def give(self, content: bytes, cut: bool) -> None:
        status, headers = 200, {"ETag": '"0"', "Last-Modified": formatdate(0, usegmt=True)}
        if asked := self.headers.get("Range"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            stop = min(int(last) + 1 if last else len(content), len(content))
            headers["Content-Range"] = f"bytes {first}-{stop - 1}/{len(content)}"
            status, content = 206, content[int(first) : stop]
        self.answer(status, headers, content, sent=len(content) // 2 if cut else None)

    def list(self, name: str, query: dict[str, list[str]]) -> None:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        items, folders = [], set()
        for key, content in sorted(self.server.buckets[name].items()):
            if not key.startswith(prefix):
                continue
            head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if cut:
                folders.add(prefix + head + delimiter)
                continue
            facts = f"<Key>{escape(key)}</Key><Size>{len(content)}</Size><ETag>0</ETag>"
            items.append(f"<Contents>{facts}<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>")
        items += [f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in sorted(folders)]
        inner = f"<Name>{name}</Name><IsTruncated>false</IsTruncated><KeyCount>{len(items)}</KeyCount>{''.join(items)}"
        self.answer(200, {"Content-Type": "application/xml"}, f"<ListBucketResult>{inner}</ListBucketResult>".encode())

    def refuse(self, code: str) -> None:
        status, message = MESSAGES[code]
        content = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
        self.answer(status, {"Content-Type": "application/xml"}, content)

    def answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"", sent: int | None = None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:sent])
        if sent is not None:
            self.close_connection = True


@contextmanager
def serving() -> Iterator[S3Server]:
    """Serve until the end of the block."""
    with S3Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
