"""eps-paths of the paper's sets, each trained once for all figures and tables, and cut when its seconds are over."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pipeline
from pipeline.data.dataset import Dataset
from pipeline.runs.run import Run
from tests.bench.measure import stopped_path
from tests.bench.paper.exhibit import KERNELS, PRINTED, Effort, add_once, named
from tests.bench.paper.kept import Kept
from tests.bench.paper.sets import MissingError, PaperSet, Sets

SETTINGS = {"tol": 1e-4, "memory": "8GB", "workers": 1, "every_row": True}  # the paper's rules see every row


@dataclass(frozen=True)
class CutPath:
    """A path, the data it was trained on, and how far it came."""

    run: Run
    data: Dataset
    stopped: bool

    @property
    def said(self) -> str:
        """How many models there are, and where the path was cut."""
        last = self.run.steps[-1].c
        return f"{len(self.run.steps)} models" + (f", cut at C = {last:.3g}" if self.stopped else "")


class Paths:
    """Trains a path when it is asked for the first time."""

    def __init__(self, kept: Kept, effort: Effort) -> None:
        self.kept, self.effort = kept, effort
        self._known: dict[tuple[str, str], CutPath] = {}

    def along(
        self, sets: Sets, keys: list[str], missing: list[str], held: float = math.inf
    ) -> Iterator[tuple[PaperSet, str, CutPath]]:
        """Yield the path of every set with every kernel, and say what is missing; Q of more than ``held`` rows is."""
        for rows in sets.those_here(keys, missing):
            for kernel in KERNELS:
                try:
                    if kernel != "linear" and rows.n > held:
                        raise MissingError(f"{rows.title} with kernels: Q of {rows.n:,} rows is not held here.")
                    path = self.of(rows, kernel)
                except MissingError as error:
                    add_once(missing, str(error))
                else:
                    yield rows, kernel, path

    def of(self, rows: PaperSet, kernel: str) -> CutPath:
        """Return the path of a set with a kernel, or raise MissingError."""
        key = rows.key, kernel
        if kernel != "linear" and rows.n * rows.values > self.effort.kernel_path:
            raise MissingError(left_out(rows, self.effort))
        if key not in self._known:
            self._known[key] = self._trained(rows, kernel)
        found = self._known[key]
        if len(found.run.steps) < 2:
            seconds = f"{self.effort.path:g} s"
            raise MissingError(f"{rows.title}, {named(kernel)}: the path made no step within {seconds}.")
        return found

    def _trained(self, rows: PaperSet, kernel: str) -> CutPath:
        data, out = pipeline.dataset_of(rows.x, rows.y), self.kept.folder / re.sub(r"\W", "-", f"{rows.key}-{kernel}")
        figure, gamma = PRINTED["figure5"], {} if kernel == "linear" else {"kernel": "rbf", "gamma": kernel}
        settings = {"epsilon": figure["epsilon"], "c_max": figure["c_max"], **gamma, **SETTINGS}

        def train() -> bool:
            shutil.rmtree(out, ignore_errors=True)  # of a path that was interrupted nobody knows the seconds
            run, stopped = stopped_path(data, out, self.effort.path, **settings)
            print(f"  {rows.title}, {named(kernel)}: path of {len(run.steps)} models{', cut' * stopped}", flush=True)
            return stopped

        stopped = self.kept.of(f"path {rows.key} {kernel}", train)
        return CutPath(pipeline.open_run(out), data, stopped)


def left_out(rows: PaperSet, effort: Effort) -> str:
    """Say why kernels are not asked for."""
    more = {"--quick": "left out by --quick", "": "which only --full tries"}
    why = more.get(effort.name, "which take too long")
    return f"{rows.title} with kernels: {rows.n:,} rows of {rows.values / rows.n:,.0f} values, {why}."
