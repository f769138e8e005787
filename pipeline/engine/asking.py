"""Questions to a Dask scheduler and its workers that end, whatever becomes of whom they are put to.

Dask's own calls wait for as long as a connection stays open, and that of a process that is stopped, swapping or cut off
stays open for hours. Here every question has an end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

from distributed import Client
from distributed.comm import CommClosedError

from pipeline.errors import EngineError

T = TypeVar("T")

SECONDS_TO_ANSWER = 30.0  # a process whose loop is busy answers in less
SECONDS_TO_GIVE_UP = 5.0  # for Dask's loop itself, after that


class SilentError(EngineError):
    """A scheduler that has not answered."""


def ask(client: Client, question: Callable[[], Awaitable[T]]) -> T:
    """Return what an awaitable of the client's gives; raise SilentError where that takes too long."""

    async def asking() -> T:
        if client.scheduler is None:  # its connection was lost a moment ago; Dask would stumble over that
            raise CommClosedError("the Dask scheduler is gone")
        return await asyncio.wait_for(question(), SECONDS_TO_ANSWER)

    future = asyncio.run_coroutine_threadsafe(asking(), client.loop.asyncio_loop)
    try:
        return future.result(SECONDS_TO_ANSWER + SECONDS_TO_GIVE_UP)
    except TimeoutError as error:
        future.cancel()
        raise SilentError(
            f"the Dask scheduler at {client.scheduler.address} has not answered for {SECONDS_TO_ANSWER:g} s (stopped, "
            "overloaded or cut off); see to it or start another, and run the same command again: finished steps stay"
        ) from error


def ask_scheduler(client: Client, function: Callable[..., Any], *arguments: Any, wait: bool = True) -> Any:
    """Return what a function returns that runs on the scheduler; ``wait`` False lets a coroutine go on there."""
    return ask(client, lambda: client.run_on_scheduler(function, *arguments, wait=wait))


def ask_workers(
    client: Client, workers: Collection[str], questions: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]
) -> dict[str, dict[str, Any]]:
    """Return the answers (or errors) by worker and question; a worker that does not answer all in time is left out."""

    async def put(worker: str) -> dict[str, Any]:
        found = {}
        for name, (function, arguments) in questions.items():
            answers = await client.run(function, *arguments, workers=[worker], on_error="return")
            found[name] = answers.get(worker)
        return found

    async def put_all() -> list[Any]:
        waiting = (asyncio.wait_for(put(worker), SECONDS_TO_ANSWER - 1) for worker in workers)
        return await asyncio.gather(*waiting, return_exceptions=True)

    answered = zip(workers, ask(client, put_all), strict=True)
    return {worker: found for worker, found in answered if isinstance(found, dict)}
