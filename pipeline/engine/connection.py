"""Connecting to a Dask scheduler, with TLS where the address says so; whatever is in the way is one line, soon."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import warnings
from pathlib import Path
from urllib.parse import urlsplit

import dask
from distributed import Client
from distributed.security import Security
from distributed.versions import VersionMismatchWarning

from pipeline.engine.local_cluster import credentials_of
from pipeline.engine.tls import client_security
from pipeline.errors import EngineError, SieveWarning

SECONDS_TO_CONNECT = 5.0  # a scheduler that is there answers in milliseconds
CONFIGURED = ("distributed.comm.tls.ca-file", "distributed.comm.tls.client.cert", "distributed.comm.tls.client.key")


def connected(address: str) -> Client:
    """Return a client of the scheduler at an address."""
    _be_quiet()
    _warn(address)
    try:
        security = _security(address)
        _knock(address)
        return Client(address, timeout=SECONDS_TO_CONNECT, set_as_default=False, security=security)
    except EngineError:
        raise
    except Exception as error:  # from a refused connection to a certificate of another authority
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        if not reason or not isinstance(error, OSError | ValueError):  # what it sent made no sense to Dask
            reason = "something else listens there"
        problem = f"no Dask scheduler answers at {address} ({reason})"
        raise EngineError(f"{problem}; start one or correct --scheduler") from error


def _security(address: str) -> Security | None:
    """Return the credentials for an encrypted address: Dask's configuration, or those of a cluster we started."""
    if urlsplit(address).scheme not in ("tls", "wss"):
        return None
    configured = {name: dask.config.get(name, None) for name in CONFIGURED}
    if all(configured.values()):
        absent = [f"{path} (Dask's {name})" for name, path in configured.items() if not Path(path).is_file()]
        if absent:
            raise EngineError(f"{address} needs TLS credentials; there is no file {' and no '.join(absent)}")
        return None
    known = credentials_of(address)
    if known is None:
        missing = [name for name in CONFIGURED if not dask.config.get(name, None)]
        names = ", ".join("DASK_" + name.upper().replace(".", "__").replace("-", "_") for name in missing)
        raise EngineError(f"{address} needs TLS credentials; set {names} to PEM files (or the like in Dask's YAML)")
    return client_security(known)


def _knock(address: str) -> None:
    """Raise OSError or ValueError where no Dask listens: its client would try for long, or wait for ever for an answer.

    A Dask scheduler speaks first, unlike its own dashboard, which people name by mistake.
    """
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme not in ("tcp", "tls", "ws", "wss") or not parts.hostname or not parts.port:
        raise ValueError("an address is tcp://host:port or tls://host:port")
    with socket.create_connection((parts.hostname, parts.port), timeout=SECONDS_TO_CONNECT) as stream:
        if parts.scheme != "tcp":
            return
        try:
            greeting = stream.recv(8)
        except TimeoutError as error:
            raise ConnectionError(f"it does not greet as Dask does; perhaps tls://{parts.netloc}") from error
        if not greeting:
            raise ConnectionError("something else listens there")


def _warn(address: str) -> None:
    """Warn where what we send, and whoever else sends something, is neither encrypted nor asked who it is."""
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        host = parts.hostname or ""
    except ValueError:  # which is about to be said
        return
    if parts.scheme in ("tcp", "ws") and host and not _is_here(host):
        problem = f"{address} has no TLS: whoever reaches that port runs code as the cluster's user, and reads the data"
        warnings.warn(f"{problem}; use tls:// (svmsieve cluster certificates DIR)", SieveWarning, stacklevel=2)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _be_quiet() -> None:
    """Keep Dask from writing to the terminal what is raised as an error, and checked, here."""
    warnings.simplefilter("ignore", VersionMismatchWarning)
    if not os.environ.get("SVMSIEVE_DEBUG"):
        for name in ("distributed", "distributed.client", "tornado.application", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
