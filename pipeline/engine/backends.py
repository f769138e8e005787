"""Where tasks run: ``inline``, ``threads``, ``processes`` or a Dask ``cluster``. One contract for all four."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any, Protocol

from pipeline.errors import EngineError

SCHEDULERS = ("threads", "inline", "processes")


class Backend(Protocol):
    """What the engine needs of a place to run tasks: ``branches`` is how many a merge tree should have at least."""

    name: str
    workers: int
    in_process: bool

    @property
    def branches(self) -> int:
        """More than there are workers, so that all have the same to do; few, where what they return travels."""
        ...

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of a shard as it is to be called there."""
        ...

    def each(
        self, task: Callable[..., Any], items: Sequence[Any], shared: tuple[Any, ...], ahead: int
    ) -> Iterator[Any]:
        """Yield task(item, *shared) in order, at most ``ahead`` results being made or waiting at a time.

        ``shared`` are big read-only objects that must not travel inside each task.
        """
        ...

    def close(self) -> None:
        """Give back what was started."""
        ...

    def abandon(self) -> None:
        """Give back what was started after something went wrong: whoever hangs is not waited for."""
        ...


def connect(scheduler: str, workers: int | None) -> Backend:
    """Return the backend for ``inline``, ``threads``, ``processes`` or the address of a scheduler."""
    if workers is not None and (not isinstance(workers, Integral) or isinstance(workers, bool) or workers < 1):
        raise EngineError(f"workers is a whole number from 1, or None for one a core, not {workers!r}")
    # Each is imported when it is asked for: dask.bag, multiprocessing and distributed take their time.
    if scheduler == "inline":
        from pipeline.engine.inline import Inline  # noqa: PLC0415

        return Inline()
    if scheduler == "threads":
        from pipeline.engine.threads import Threads  # noqa: PLC0415

        return Threads(workers)
    if scheduler == "processes":
        from pipeline.engine.processes import Processes  # noqa: PLC0415

        return Processes(workers)
    if isinstance(scheduler, str) and ":" in scheduler:
        from pipeline.engine.cluster import Cluster  # noqa: PLC0415

        return Cluster(scheduler)
    raise EngineError(
        f"unknown scheduler {scheduler!r}; use {', '.join(SCHEDULERS)} or an address tcp://host:8786 or tls://host:8786"
    )
