"""What a command says, and its exit code, when it was told to end."""

from __future__ import annotations

import signal

TOLD_BY = (signal.SIGTERM, signal.SIGINT)  # from a supervisor, and Ctrl-C
SAID = "interrupted; finished results stay, run the same command again to go on"


def exit_code(number: int) -> int:
    """Return 128 + 15 after SIGTERM, which supervisors know, and 1 after anything else."""
    return 128 + number if number == signal.SIGTERM else 1
