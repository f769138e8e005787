"""Where the command ``svmsieve`` starts: told to end while Python still loads what it is made of, it says so in a line.

That takes most of a short command. Nothing has begun by then, so nothing is to be cleaned up; from ``Ending.begin`` on,
signals are heard by that. Little is imported here, for what comes before is not ours to say.
"""

from __future__ import annotations

import os
import signal
import sys

from pipeline.stopped import SAID, TOLD_BY, exit_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


def main() -> NoReturn:
    """Load the command line and run it."""
    _open_all()
    for number in TOLD_BY:
        signal.signal(number, _end)
    from pipeline.cli import main as run  # noqa: PLC0415 - signals are heard first

    run()


def _open_all() -> None:
    """Open standard streams that whoever started us closed: what is said there goes nowhere.

    Else a file of ours would get the number of one, and what libraries write to it.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - a descriptor, for good


def _end(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, f"svmsieve: {SAID}\n".encode())
    os._exit(exit_code(number))
