"""A user's own Dask graph, computed where Dask would compute it, with results that come as they are ready.

Collections may hold results on a cluster that only their client knows. So the client or scheduler that Dask has in
force (``Client(...)``, ``dask.config.set``) comes first, then the cluster of the engine, then this process. Dask itself
repeats what a lost worker had. What the graph raises is one line here, with the error of the user's own behind it.
"""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import dask
from dask.base import get_scheduler
from dask.callbacks import Callback

from pipeline.engine.backends import Backend
from pipeline.errors import EngineError, SieveError

if TYPE_CHECKING:
    from distributed import Client, Future

SECONDS_BETWEEN_LOOKS = 1.0  # at who is there, while nothing ends
Told = Callable[[Any], None]


def computed(tasks: Sequence[Any], backend: Backend, told: Told = lambda result: None) -> list[Any]:
    """Return the results of delayed ``tasks``, which are small, in their order; the first that fails ends it.

    Each result is ``told`` as soon as it is there.
    """
    try:
        client = _client_in_force() or getattr(backend, "client", None)
        return _here(tasks, backend, told) if client is None else _on_cluster(tasks, client, backend, told)
    except SieveError:
        raise
    except Exception as error:
        raise EngineError(_explained(error)) from error


def _client_in_force() -> Client | None:
    """Return the client by which Dask computes, if it does so on a cluster."""
    if "distributed" not in sys.modules:
        return None
    from distributed import Client  # noqa: PLC0415 - slow to import, and loaded already

    owner = getattr(get_scheduler(), "__self__", None)
    return owner if isinstance(owner, Client) else None


def _here(tasks: Sequence[Any], backend: Backend, told: Told) -> list[Any]:
    keys = {task.key for task in tasks}

    def after(key: Any, value: Any, *_state: Any) -> None:
        if key in keys:
            told(value)

    how: dict[str, Any] = {}
    if get_scheduler() is None:
        inline = backend.name == "inline"
        how = {"scheduler": "sync"} if inline else {"scheduler": "threads", "num_workers": backend.workers}
    with Callback(posttask=after):
        return list(dask.compute(*tasks, **how))


def _on_cluster(tasks: Sequence[Any], client: Client, backend: Backend, told: Told) -> list[Any]:
    ours = getattr(backend, "client", None) is client
    ended: queue.Queue[int] = queue.Queue()
    futures: list[Future] = client.compute(list(tasks))
    results: dict[int, Any] = {}
    try:
        for k, future in enumerate(futures):
            future.add_done_callback(lambda _future, k=k: ended.put(k))
        while len(results) < len(futures):
            try:
                k = ended.get(timeout=SECONDS_BETWEEN_LOOKS)
            except queue.Empty:
                _look(client, backend if ours else None)
                continue
            results[k] = _fetched(futures[k], client, backend if ours else None)
            futures[k].release()
            told(results[k])
    finally:
        client.cancel([future for k, future in enumerate(futures) if k not in results])
    return [results[k] for k in range(len(futures))]


def _look(client: Client, backend: Any) -> None:
    """Raise EngineError if nobody is there any more who could go on; where it is our cluster, wait for workers."""
    if backend is not None:
        backend.present()
    elif client.status not in ("running", "connecting"):
        raise EngineError("the Dask client was closed, or its scheduler is gone; connect and call it again")


def _fetched(future: Future, client: Client, backend: Any) -> Any:
    if backend is None:
        return future.result()
    return backend.watched(lambda: client.gather(future, asynchronous=True))


def _explained(error: Exception) -> str:
    said = (str(error).splitlines() or [""])[0]
    kind = type(error).__name__
    if kind == "KilledWorker":
        cure = "make the partitions smaller (x.rechunk, df.repartition), or give workers more memory"
        return f"a partition took worker after worker with it ({said}); {cure}"
    if isinstance(error, ImportError):
        return f"a worker cannot import what it needs ({said}); install the same packages there as here"
    if kind in ("CancelledError", "FutureCancelledError", "CommClosedError"):
        return (
            f"the cluster lost what was being computed ({said or kind}); persist the collection again, and call again"
        )
    return f"the collection cannot be computed ({kind}: {said}); see that its compute() works"
