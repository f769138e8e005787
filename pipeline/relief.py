"""What a process keeps only to be quicker, and can let go of when its memory is short."""

from __future__ import annotations

from collections.abc import Callable

_kept: list[Callable[[], None]] = []


def on_shortage(forget: Callable[[], None]) -> None:
    """Register a function that lets go of something."""
    _kept.append(forget)


def let_go() -> None:
    """Let go of everything that is kept only to be quicker."""
    for forget in _kept:
        forget()
