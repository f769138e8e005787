"""Where passes run: on an engine that is given, or on a new one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from pipeline.engine.engine import Engine


def engine_for(engine: Engine | None, scheduler: str, workers: int | None = None) -> AbstractContextManager[Engine]:
    """Return the engine that is given, which stays open, or a new one."""
    return Engine(scheduler, workers) if engine is None else nullcontext(engine)
