"""The worker processes of ``scheduler="processes"``, forked from one that has everything loaded.

A spawned one takes a second of a core to import what it needs, and tests start about a hundred. They are spawned where
that is what is tested: in ``engine/test_engine.py``, and by every command that runs in a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

LOADED = ["pipeline.path.fit", "pipeline.verify.verify", "pipeline.use.predict", "tests.trained", "tests.warm"]


class WarmContext(ForkServerContext):
    """In the place of the one in ``pipeline.engine.processes``: makes processes and remembers them."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[ForkServerProcess] = []
        self.set_forkserver_preload(LOADED)  # type: ignore[no-untyped-call]

    def Process(self, *, target: Callable[..., Any], args: tuple[Any, ...]) -> ForkServerProcess:  # type: ignore[override]
        given = (dict(os.environ), target, *args)
        self.made.append(ForkServerProcess(target=_in_environment, args=given))
        return self.made[-1]


def _in_environment(environment: Mapping[str, str], target: Callable[..., Any], *args: Any) -> None:
    """Have the environment that a spawned process would have: the other is as old as the one it was forked from."""
    os.environ.clear()
    os.environ.update(environment)
    target(*args)
