"""Where the command ``svmsieve`` starts: told to end while Python still loads what it is made of, it says so in a line.

That takes most of a short command. Nothing has begun by then, so nothing is to be cleaned up; from ``Ending.begin`` on,
signals are heard by that. Little is imported here, for what comes before is not ours to say.
"""

from __future__ import annotations

import os
import signal

from pipeline.stopped import SAID, TOLD_BY, exit_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


def main() -> NoReturn:
    """Load the command line and run it."""
    for number in TOLD_BY:
        signal.signal(number, _end)
    from pipeline.cli import main as run  # noqa: PLC0415 - signals are heard first

    run()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, f"svmsieve: {SAID}\n".encode())
    os._exit(exit_code(number))
