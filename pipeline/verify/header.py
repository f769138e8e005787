"""Does run.json say of a run what its steps say? Number of steps, the end of the chain, best step; for ``verify``.

And is it what was written? What nothing else can tell, its seal does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.errors import RunError
from pipeline.events import Listener, Note
from pipeline.runs.chain import CHAIN, SEAL, foundation, is_chained, seal_of
from pipeline.runs.sketch_file import SKETCH_FILE, sketch_digest
from pipeline.verify.said import SaidRun
from pipeline.verify.scores import best_steps, mean_scores, same_scores, scores_at


def check_ends(run: SaidRun, listen: Listener) -> None:
    """Raise RunError if a finished run lacks steps or has others than run.json says; a note says what cannot be known.

    A run that is not finished has the steps that it has.
    """
    count, grid = len(run.steps), run.spec.grid
    chained = is_chained(run.header)
    if not chained and any(CHAIN in step.facts for step in run.steps):
        raise RunError(f"{run.path}: its steps are chained, but run.json says nothing of it; train again")
    if not chained:
        listen(Note(f"{run.path}: the run is from before steps were chained: one removed would not be missed"))
    if run.header["status"] != "finished":
        listen(Note(f"{run.path}: the run is not finished; it has {count} steps so far"))
        return
    ended_early = run.spec.patience and run.header.get("stopped") == "patience"  # where it may: ``tuned``
    expected = {run.header["n_steps"]} | ({len(set(grid))} if grid and not ended_early else set())
    if expected != {count}:
        raise RunError(f"{run.path}: says it is finished, but has {count} steps of {max(expected)}; train again")
    last = run.steps[-1].facts.get(CHAIN) if run.steps else foundation(run.header)
    if chained and run.header.get(CHAIN) != last:
        raise RunError(
            f"{run.path}: the steps do not end as run.json says; steps were removed or replaced; train again"
        )


def check_best(run: SaidRun, folds: Sequence[SaidRun]) -> None:
    """Raise RunError if a finished run calls another step the best than its scores do; folds are all or none."""
    if run.header.get("cv_c") is not None:
        return  # ``tuned``
    if run.header.get("cv_scores") is not None and not run.spec.cv:
        raise RunError(f"{run.path}: there are cv_scores in run.json, but the run has no folds; train again")
    if run.header["status"] != "finished" or (run.spec.cv and not folds):
        return
    found = _scores(run)
    if folds:
        found = run.header["cv_scores"]
        if not same_scores(found, mean_scores([_scores(fold) for fold in folds])):
            raise RunError(f"{run.path}: cv_scores in run.json are not the means of the folds' scores; train again")
    said, best = run.header.get("best_step"), best_steps(found, run.spec.select)
    if said not in best:
        names = " or ".join(str(k) for k in sorted(best, key=str))
        raise RunError(f"{run.path}: run.json calls step {said} the best, but by the scores it is {names}; train again")


def check_seal(run: SaidRun) -> None:
    """Raise RunError if run.json was changed in anything else that it says."""
    if is_chained(run.header) and run.header.get(SEAL) != seal_of(run.header):
        raise RunError(f"{run.path}: run.json is not as it was written; train again")


def check_sketch(run: SaidRun) -> None:
    """Raise RunError if the file of the rows that were trained on is not the one that run.json means."""
    said = run.header.get("sketch")
    if said is not None and said["sha256"] != sketch_digest(run.path):
        raise RunError(f"{run.path / SKETCH_FILE}: missing, or not the file that was written; train again")


def _scores(run: SaidRun) -> list[Any]:
    return [scores_at(step) for step in run.steps]
