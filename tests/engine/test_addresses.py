"""Addresses of schedulers that are none: one line, soon; and what is reached without TLS."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading
import time
import warnings

import dask
import pytest

from pipeline.engine import connection, tls
from pipeline.engine.engine import Engine
from pipeline.errors import EngineError, SieveWarning
from tests.trained import command

pytestmark = pytest.mark.attack


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(connection, "SECONDS_TO_CONNECT", 0.3)


@pytest.fixture
def credentials(tmp_path):
    tls.make_credentials(tmp_path)
    files = tls.credentials(tmp_path, "client")
    found = {"ca-file": files.ca, "client.cert": files.cert, "client.key": files.key}
    with dask.config.set({f"distributed.comm.tls.{name}": path for name, path in found.items()}):
        yield


ADDRESSES = """
tcp:// tls:// :// ::: a:b tcp://127.0.0.1:x tcp://127.0.0.1:99999 tcp://[::1 tls://..:1 http://127.0.0.1:1 inproc://x:1
tls://127.0.0.1:1 tcp://127.0.0.1:0 tcp://localhost:1 tcp://u:p@127.0.0.1:1 wss://127.0.0.1:1
"""


@pytest.mark.parametrize("address", [*ADDRESSES.split(), f"tcp://127.0.0.1{'a' * 300}:1"])
@pytest.mark.filterwarnings("ignore::pipeline.errors.SieveWarning")
def test_what_is_no_address_is_one_line(capsys, credentials, address):
    code, out, err = command(capsys, "datasets", "describe", "breast_cancer", "-q", "--scheduler", address)
    assert (code, out) == (1, "")
    assert [line for line in err.splitlines() if " warning: " not in line] == [err.splitlines()[-1]]
    assert err.splitlines()[-1].startswith("svmsieve: no Dask scheduler answers at ")


SERVERS = {
    "silent": lambda stream: None,
    "closing": lambda stream: stream.close(),
    "babbling": lambda stream: stream.sendall(b"\xff" * 4096),
    "greeting": lambda stream: stream.sendall(b"\x08" + bytes(7) + b"x" * 8),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Dask forgets its socket
@pytest.mark.parametrize("scheme", ["tcp", "tls"])
@pytest.mark.parametrize("kind", SERVERS)
def test_who_does_not_speak_as_dask_does_is_left_soon(credentials, scheme, kind):
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as streams:

        def serve() -> None:
            with contextlib.suppress(OSError):  # at the end of the test
                while True:
                    stream = streams.enter_context(server.accept()[0])
                    SERVERS[kind](stream)

        serving = threading.Thread(target=serve)
        serving.start()
        begun = time.monotonic()
        with pytest.raises(EngineError, match=r"^no Dask scheduler answers at ") as caught:
            Engine(f"{scheme}://127.0.0.1:{server.getsockname()[1]}")
        server.shutdown(socket.SHUT_RDWR)
        serving.join()
    assert time.monotonic() - begun < 10
    gc.collect()
    assert "\n" not in str(caught.value) and "Error" not in str(caught.value)


def test_missing_credentials_are_named(credentials, tmp_path):
    with (
        dask.config.set({"distributed.comm.tls.ca-file": str(tmp_path / "nowhere.pem")}),
        pytest.raises(EngineError, match=r"there is no file \S+/nowhere\.pem \(Dask's distributed\.comm\.tls\.ca-file"),
    ):
        Engine("tls://127.0.0.1:1")


def test_another_host_without_tls_is_warned_of_in_one_line(capsys):
    """192.0.2.1 is an address that nobody has (RFC 5737)."""
    with pytest.warns(SieveWarning, match=r"tcp://192\.0\.2\.1:1 has no TLS: whoever reaches that port runs code"):
        connection._warn("tcp://192.0.2.1:1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fine in ("tls://192.0.2.1:1", "tcp://127.0.0.1:1", "tcp://[::1]:1", "tcp://localhost:1", "localhost:1"):
            connection._warn(fine)
    words = ("datasets", "describe", "breast_cancer", "-q", "--scheduler", "tcp://nohost.invalid:1")
    code, _, err = command(capsys, *words)
    warned, failed = err.splitlines()
    assert code == 1
    assert warned.startswith(
        "svmsieve: warning: tcp://nohost.invalid:1 has no TLS: whoever reaches that port runs code"
    )
    assert failed.startswith("svmsieve: no Dask scheduler answers")
