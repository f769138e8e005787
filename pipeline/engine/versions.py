"""Workers must run what the client runs: another svmsieve, or libraries that round differently, would change the bits.

Asked are functions of the standard library by their names: nothing of ours is needed on a worker to find out that
nothing of ours is there, and no compiled code goes to another Python.
"""

from __future__ import annotations

import platform
from collections.abc import Collection
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from distributed import Client

from pipeline.engine.asking import ask_scheduler, ask_workers
from pipeline.errors import EngineError

PACKAGES = ("svmsieve", "numpy", "scipy", "numba")


def check_scheduler(client: Client) -> None:
    """Raise EngineError where the scheduler, which reads task graphs, has another Python or svmsieve."""
    _expect("the scheduler", "Python", ask_scheduler(client, platform.python_version))
    try:
        found = ask_scheduler(client, version, "svmsieve")
    except PackageNotFoundError as error:
        found = error
    _expect("the scheduler", "svmsieve", found)


def check_workers(client: Client, workers: Collection[str]) -> set[str]:
    """Return those workers that answered, or raise EngineError for one that has other versions than this process."""
    questions: dict[str, Any] = {"Python": (platform.python_version, ())}
    questions |= {package: (version, (package,)) for package in PACKAGES}
    answered = set()
    for worker, answers in ask_workers(client, workers, questions).items():
        if all(isinstance(found, str | PackageNotFoundError) for found in answers.values()):
            for package, found in answers.items():
                _expect(f"worker {worker}", package, found)
            answered.add(worker)
    return answered


def _expect(who: str, package: str, found: Any) -> None:
    ours = platform.python_version() if package == "Python" else version(package)
    if isinstance(found, PackageNotFoundError):
        raise EngineError(f"{who} has no {package} (here: {ours}); install svmsieve {version('svmsieve')} there")
    same = found.split(".")[:2] == ours.split(".")[:2] if package == "Python" else found == ours
    if not same:
        raise EngineError(f"{who} has {package} {found}, but here it is {ours}; install the same version on both")
