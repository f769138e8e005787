"""``python -m tests.fuzz [--seconds N] [--cases N] [--seed S] [--only NAME,...] [--case K]``; 1 if any case failed."""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.fuzz.judge import judged
from tests.fuzz.runner import Tally, fuzz, limit_memory
from tests.fuzz.targets import TARGETS

EXAMPLES = 3  # of the failures with the same cause


def main() -> None:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and tidy up
    names = [name for name in options.only.split(",") if name] or list(TARGETS)
    memory = Path("/dev/shm")  # noqa: S108, files that live for a millisecond
    place = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="svmsieve-fuzz-", dir=place) as folder:
        os.environ["SVMSIEVE_CACHE"] = str(Path(folder) / "cache")
        if options.case is not None:
            sys.exit(_repeat(names[0], options.seed, options.case, Path(folder)))
        tallies, shares = [], sum(TARGETS[name].share for name in names)
        for name in names:
            home = Path(folder) / name
            home.mkdir()
            cases = None if options.cases is None else -(-options.cases * TARGETS[name].share // shares)
            seconds = None if options.seconds is None else options.seconds / len(names)
            tallies.append(fuzz(TARGETS[name](), options.seed, home, cases, seconds))
            _print(tallies[-1], options.seed)
    failed = sum(len(tally.failures) for tally in tallies)
    print(f"{sum(tally.cases for tally in tallies):,} cases, {failed:,} failures", flush=True)
    sys.exit(1 if failed else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, help="in all; the targets share them evenly")
    parser.add_argument("--cases", type=int, help="in all; quick targets get more of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="NAME,...", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--case", type=int, metavar="K", help="repeat this case of the one target, in this process")
    options = parser.parse_args()
    unknown = [name for name in options.only.split(",") if name and name not in TARGETS]
    if unknown:
        parser.error(f"no target {unknown[0]}; there are {', '.join(TARGETS)}")
    if options.case is not None and (options.only not in TARGETS):
        parser.error("--case needs --only with one name")
    if options.seconds is None and options.cases is None:
        options.seconds = 30.0
    return options


def _repeat(name: str, seed: int, case: int, folder: Path) -> int:
    """Repeat a case where a debugger can follow; return the exit code."""
    faulthandler.enable(sys.__stderr__)
    target = TARGETS[name]()
    target.prepare(folder)
    limit_memory()
    failure = judged(target, seed, case, folder)
    print(f"{failure.kind}\n{failure.detail}" if failure else "no failure")
    return 1 if failure else 0


def _print(tally: Tally, seed: int) -> None:
    """Print a target's line, and its failures by cause, each with the command that repeats it."""
    speed = tally.cases / max(tally.seconds, 1e-9)
    print(f"{tally.target:10} {tally.cases:9,} cases {len(tally.failures):6,} failures {speed:8,.0f}/s", flush=True)
    shown: Counter[str] = Counter()
    counts = Counter(failure.kind for failure in tally.failures)
    for kind, count in counts.most_common():
        print(f"  {count:6,} x {kind}")
        for failure in tally.failures:
            if failure.kind == kind and shown[kind] < EXAMPLES:
                shown[kind] += 1
                again = f"python -m tests.fuzz --only {tally.target} --seed {seed} --case {failure.case}"
                print(f"           {again}  # {failure.shown()}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
