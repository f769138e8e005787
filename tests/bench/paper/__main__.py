"""The paper's figures 1, 4, 5, 6 and tables 2, 3, 4 from our own runs, each beside what is printed.

Writes index.html, and NAME.svg and NAME.csv a figure or table. Sets are looked for in --data DIR and among those that
`svmsieve datasets fetch` has got; breast cancer and generated stand-ins are always here. --quick takes five minutes on
two quiet cores; --full has stand-ins of full size (table 3 alone takes three quarters of an hour) and takes hours. The
page is written whenever a figure or table is done, and what was measured is kept in DIR/unfinished until all are: the
same command goes on where it was interrupted.

python -m tests.bench.paper --out paper/ [--only figure4] [--data DIR] [--quick | --full] [--path-seconds S]
    [--cell-seconds S]
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from pipeline.blas import one_thread
from pipeline.report.page import made_by
from tests.bench.paper.against_dome import figure6
from tests.bench.paper.along_paths import figure5
from tests.bench.paper.data_sets import table2
from tests.bench.paper.exhibit import FULL, QUICK, USUAL, Effort, Exhibit
from tests.bench.paper.far_references import figure4
from tests.bench.paper.kept import Kept
from tests.bench.paper.output import write
from tests.bench.paper.paths import Paths
from tests.bench.paper.sets import Sets
from tests.bench.paper.single import table3
from tests.bench.paper.six_on_paths import table4
from tests.bench.paper.toy import figure1
from tests.conftest import DEVELOPMENT_DATA

NAMES = ("figure1", "figure4", "figure5", "figure6", "table2", "table3", "table4")


def exhibits(
    names: tuple[str, ...], sets: Sets, effort: Effort, kept: Kept, show: Callable[[list[Exhibit]], object] = len
) -> list[Exhibit]:
    """Make some of them, in the paper's order of kinds, and show those that there are after each."""
    paths = Paths(kept, effort)
    makers: dict[str, Callable[[], Exhibit]] = {
        "figure1": lambda: figure1(sets, effort),
        "figure4": lambda: figure4(sets, effort, kept),
        "figure5": lambda: figure5(sets, effort, paths),
        "figure6": lambda: figure6(sets, effort, kept),
        "table2": lambda: table2(sets, effort),
        "table3": lambda: table3(sets, effort, kept),
        "table4": lambda: table4(sets, effort, paths, kept),
    }
    made = []
    for name in names:
        wall, cpu = time.perf_counter(), time.process_time()
        made.append(makers[name]())
        print(f"{name}: {time.perf_counter() - wall:.0f} s ({time.process_time() - cpu:.0f} s of CPU)", flush=True)
        for claim in made[-1].claims:
            print(f"  {'yes' if claim.holds else 'NO '} {claim.text}: {claim.found}", flush=True)
        show(made)
    return made


def main(arguments: list[str] | None = None) -> None:
    """Do what the head of this file says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--data", type=Path, default=DEVELOPMENT_DATA, metavar="DIR")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", dest="effort", action="store_const", const=QUICK, default=USUAL)
    how.add_argument("--full", dest="effort", action="store_const", const=FULL)
    for what, cut in (("path", "a path is cut"), ("cell", "the six approaches end, for a set and kernel of table 4")):
        parser.add_argument(f"--{what}-seconds", type=float, metavar="S", help=f"of CPU, after which {cut}")
    options = parser.parse_args(arguments)
    if options.data != DEVELOPMENT_DATA and not options.data.is_dir():
        parser.error(f"{options.data}: is no folder; --data names one that has the data sets")
    names = tuple(name for name in NAMES if name in options.only)
    words = ["python", "-m", "tests.bench.paper", "--out", str(options.out)]
    words += [] if names == NAMES else ["--only", *names]
    words += [options.effort.name] if options.effort.name else []
    effort = options.effort
    for what in ("path", "cell"):
        if (seconds := getattr(options, f"{what}_seconds")) is not None:
            if not seconds > 0:
                parser.error(f"--{what}-seconds {seconds:g}: is not above 0")
            effort = replace(effort, **{what: seconds})
            words += [f"--{what}-seconds", f"{seconds:g}"]
    settings = {"effort": asdict(effort), "data": str(options.data.absolute()), "by": made_by()}
    kept = Kept(options.out / "unfinished", settings)
    if len(kept):
        print(f"{kept.file}: {len(kept)} of the measurements are there", flush=True)

    def show(made: list[Exhibit]) -> Path:
        return write(made, effort, shlex.join(words), options.out, names[len(made) :])

    with one_thread():
        made = exhibits(names, Sets(options.data), effort, kept, show)
    shutil.rmtree(kept.folder)
    print(f"{options.out / 'index.html'}: {len(made)} of {len(NAMES)} figures and tables")


if __name__ == "__main__":
    main()
