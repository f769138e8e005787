"""What else is done with a run: screening by it, checking it, and its models for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pipeline.api.data import as_trained
from pipeline.api.predictions import AnySource, opened_run
from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine, engine_for
from pipeline.errors import RunError, SpecError
from pipeline.files import local
from pipeline.keywords import checked_keywords
from pipeline.maths.verdicts import Screened
from pipeline.progress import progress
from pipeline.runs.directory import open_run
from pipeline.runs.run import RunOf, StepView
from pipeline.scoring.models import any_model_of
from pipeline.use import export as exporting
from pipeline.use.screen import screening
from pipeline.verify.classes import verify_any
from pipeline.verify.verify import Finding


@checked_keywords
def screen(
    data: Any,
    reference: AnySource,
    c: float,
    y: Any = None,
    *,
    rule: str = "it",
    memory: int | None = None,
    scheduler: str = "threads",
    workers: int | None = None,
    engine: Engine | None = None,
) -> Screened:
    """Prove, from a trained model, which rows can be left out at another C.

    Parameters
    ----------
    data : path, URL, name, Dataset, array, sparse matrix or frame
        The rows, those that the reference was trained on or others.
    reference : step, run or path
        The model; of a run the last step whose C is at most ``c``.
    c : float
        The C to screen for.
    y : array-like of shape (n_samples,), default=None
        The labels of rows in memory.
    rule : str, default="it"
        it, bt1, bt2, gap or none.
    memory : int, default=None
        Bytes; None is half of the machine's.
    scheduler, workers, engine
        As in ``fit_path``.

    Returns
    -------
    screened : Screened
        ``verdicts`` by row (0 KEEP, 1 ZERO, 2 UPPER), and the bounds ``lower`` and ``upper`` of z_i . w*.
    """
    source = opened_run(reference)
    step = source.at(c) if isinstance(source, RunOf) else source
    if not isinstance(step, StepView):
        raise SpecError("screening is for two classes; give the run of one class, run.runs[k]")
    with engine_for(engine, scheduler, workers) as made:
        rows = as_trained(step.data, data, y, None, made)
        parts = list(screening(made, rows, step, c, rule, memory).parts())
    return Screened(*(np.concatenate([getattr(p, key) for p in parts]) for key in ("lower", "upper", "verdicts")))


@checked_keywords
def verify(  # noqa: PLR0913 - all but three are keywords
    run: RunOf[Any] | str | Path,
    data: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    step: int | None = None,
    validation: Any = None,
    scheduler: str = "threads",
    workers: int | None = None,
    engine: Engine | None = None,
    verbose: int = 0,
) -> list[Finding]:
    """Compute every certificate of a run directory again, by code that training does not use.

    Parameters
    ----------
    run : Run or path
        The run directory. A run in memory has nothing that could have been changed since: train with ``out``.
    data : path, URL, name, Dataset, array, sparse matrix or frame
        The rows that it was trained on.
    y, sample_weight : array-like of shape (n_samples,), default=None
        The labels and costs of rows in memory.
    step : int, default=None
        The only step to look at; None is all.
    validation : path or Dataset, default=None
        The data that its models were scored on.
    scheduler, workers, engine, verbose
        As in ``fit_path``.

    Returns
    -------
    findings : list of Finding
        One a step, of folds and searches, too; ``finding.holds`` says whether the certificate is true.
    """
    if isinstance(run, RunOf) and getattr(run, "in_memory", False):
        raise RunError("the run is kept in memory; train with out=DIR to have one that can be verified")
    path = run.path if isinstance(run, RunOf) else Path(run)
    about = open_run(path).header.data
    with progress(quiet=not verbose) as listen, engine_for(engine, scheduler, workers) as made:
        source = as_trained(about, data, y, sample_weight, made, listen)
        judge = None if validation is None else as_trained(about, validation, None, None, made, listen)
        return verify_any(made, path, source, step, listen, judge)


@checked_keywords
def export(
    run: AnySource,
    out: str | Path,
    kind: str = "sklearn",
    *,
    c: float | None = None,
    training: Dataset | str | Path | None = None,
) -> Path:
    """Write a model for other programs.

    Parameters
    ----------
    run : Run, step or path
        The model: of a run that at ``c``, or its best.
    out : path
        The file; an old one is replaced at once.
    kind : {"sklearn", "liblinear", "libsvm", "npz"}, default="sklearn"
        What to write; ``load_sklearn`` reads the first.
    c : float, default=None
        The C of the model; None is the best step of a run.
    training : path or Dataset, default=None
        The training data of a kernel's model, if they are no longer where they were.

    Returns
    -------
    out : Path
        The file.
    """
    source = opened_run(run)
    model = any_model_of(source, c if isinstance(source, RunOf) else None, training=training)
    exporting.export(model, local(out), kind)
    return Path(out)
