"""The backend for a Dask cluster: connecting to it, sharing arrays with its workers, noticing that it went away."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import dask
from distributed import Client, KilledWorker
from distributed.comm import CommClosedError

from pipeline.errors import EngineError

SECONDS_TO_CONNECT = 5.0
SECONDS_FOR_WORKERS = 30.0


class Cluster:
    """A Dask cluster by the address of its scheduler."""

    in_process = False

    def __init__(self, address: str) -> None:
        self.name = address
        remedy = "start one or correct --scheduler"
        try:
            _knock(address)
            self.client = Client(address, timeout=SECONDS_TO_CONNECT, set_as_default=False)
        except Exception as error:  # from a refused connection to a missing TLS context
            reason = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
            raise EngineError(f"no Dask scheduler answers at {address} ({reason}); {remedy}") from error
        try:
            self.client.wait_for_workers(1, timeout=SECONDS_FOR_WORKERS)
        except TimeoutError as error:
            self.close()
            raise EngineError(f"the Dask cluster at {address} has no workers; start some") from error
        self.workers = max(1, sum(self.client.nthreads().values()))

    @contextmanager
    def share(self, values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Scatter every object once to all workers; they drop it when the pass is over."""
        with self._losses():
            futures = self.client.scatter(list(values), broadcast=True, hash=False) if values else []
        try:
            yield tuple(dask.delayed(future) for future in futures)
        finally:
            for future in futures:
                future.release()

    def compute(self, collection: Any) -> Any:
        """Compute on the workers."""
        with self._losses():
            return self.client.compute(collection, sync=True)

    def close(self) -> None:
        """Leave the cluster; it goes on without us."""
        self.client.close()

    @contextmanager
    def _losses(self) -> Iterator[None]:
        """Say in one line that workers, and what was shared with them, or the scheduler went away."""
        try:
            yield
        except (KilledWorker, CommClosedError, CancelledError, asyncio.CancelledError) as error:
            problem = "lost its scheduler or a worker during the pass (out of memory or killed)"
            raise EngineError(f"the Dask cluster at {self.name} {problem}; see its logs and run again") from error


def _knock(address: str) -> None:
    """Raise OSError or ValueError where no Dask listens: its client would try for long, or wait for ever for an answer.

    A Dask scheduler speaks first, unlike its own dashboard, which people name by mistake.
    """
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme not in ("tcp", "tls", "ws", "wss") or not parts.hostname or not parts.port:
        raise ValueError("an address is tcp://host:port")
    with socket.create_connection((parts.hostname, parts.port), timeout=SECONDS_TO_CONNECT) as stream:
        if parts.scheme == "tcp" and not stream.recv(8):
            raise ConnectionError("something else listens there")
