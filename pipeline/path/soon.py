"""Which rows will be read before all rows are again: they are copied while all are (``passes.hot``).

A certificate leaves a row unread whose margin is further from 1 than it may be off (``asleep``), by

    min(|z_i| |e|, |z_i/D| |D e|),

and e grows from step to step until all rows are read. So before they are, the distance of each row's margin from 1, in
widths of the last certificate before, says how soon it will be read again: by the first certificates rows at a quarter
of such a width or less, by the last ones those at one width and some beyond; the rows that are gathered for the solver
are near 1, too. (Replayed on census_income_kdd to 6,000 C_min: with the rows up to one width, mostly 0.3 to 0.5 of all,
certificates soon after a full read miss next to nothing, later ones up to 8 % of the data, 18 % in short cycles, and
rows that are gathered up to 1.7 %.) Where rows are missing the shards are read whole for them, as they lie everywhere,
unless they are few: then those that the next certificates will want are copied as well.

Reading the copies is a part of the data instead of all. How many certificates will be served is known from the last
time: where they are too few to pay for writing, fewer rows are copied, or none.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pipeline.budget import Budget, Projection, machine_memory
from pipeline.data.dataset import Dataset
from pipeline.data.stores.remote import RemoteShard
from pipeline.data.stores.shard_cache import room
from pipeline.engine.engine import Engine
from pipeline.engine.together import Partner
from pipeline.passes.hot import FEW, MOST_BANDS, VARIABLE, HotRows
from pipeline.path.asleep import MOST_SINCE, Doubt
from pipeline.working.held import bytes_held
from pipeline.working.state import ByRow, RowState

# Widths of the last certificate: where the bands of a full read end. Replayed on census_income_kdd: what reads some
# rows reads bands of 0.37 of the data, 0.40 with four of them, 0.35 with 16, 0.51 with one.
BANDS = (0.0625, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0, 1.5)
# Widths grow with the number of certificates, and what each reads with the widths: when the data have been read
# ``since`` times since all rows were, widths will be 1/sqrt(since) times as large before they are again; margins drift.
DRIFT, MOST_GROWTH = 1.25, 8.0
WRITING = 3.0  # times reading: a cloud disk of 0.8 GB/s, which writes 0.28
LEAST_MISSED = FEW  # of the nonzeros: fewer are read page by page


class Soon:
    """Chooses the rows to be copied, where the state has a place for them."""

    def __init__(self, engine: Engine, data: Dataset, state: RowState) -> None:
        self.engine, self.state, self.nnz = engine, state, max(1, data.nnz)
        self.served = 0  # certificates since all rows were read

    def before_all(self, doubt: Doubt | None, f: ByRow) -> None:
        """All rows are about to be read: choose by the point before, its margins and how well it knew them."""
        served, self.served, hot = self.served, 0, self.state.hot
        if hot is None or doubt is None or not served:
            return
        hot.forget()
        sizes = np.sum(self.state.each(_mark, hot.marks, doubt, f), axis=0)
        for count in range(len(BANDS), 0, -1):
            share = float(sizes[1 : count + 1].sum()) / self.nnz
            if pays(served, share, share):
                self.state.later(_unmark, hot.marks, count + 1)
                hot.expect()
                return
        hot.forget()

    def before_some(self, doubt: Doubt, f: ByRow, since: float) -> None:
        """Some rows are about to be read, with which the data will have been ``since`` times: copy what is missing."""
        self.served, hot = self.served + 1, self.state.hot
        if hot is None or since >= MOST_SINCE or len(hot.bands) >= MOST_BANDS:
            return
        missing = sum(self.state.each(_missing, hot, doubt))
        if missing <= LEAST_MISSED * self.nnz:
            return
        band, growth = 1 + max(hot.bands, default=0), min(MOST_GROWTH, 1.0 / math.sqrt(max(since, 1e-9)))
        for reach in (DRIFT * growth, DRIFT * math.sqrt(growth), 1.0):
            more = sum(self.state.each(_mark_more, hot, band, (doubt, reach), f))
            if pays(max(1.0, self.served * (growth - 1.0)), (more + hot.nnz) / self.nnz, more / self.nnz):
                hot.expect()
                hot.copy_all(self.engine)
                return
            self.state.later(_unmark, hot.marks, band)


def pays(served: float, share: float, written: float) -> bool:
    """Tell whether writing a part of the data pays if so many certificates read a ``share`` of it instead of all.

    Rows are gathered before each of them, and before what reads all rows after them.
    """
    return (2 * served + 1) * (1 - share) > WRITING * written


def hot_rows(
    engine: Engine, data: Dataset, state: RowState, budget: Budget, folder: Callable[[], Path]
) -> HotRows | None:
    """Return a place for copies: for linear problems on this machine whose shards the page cache cannot keep.

    Problems that share passes want other rows each, and have none.
    """
    asked, here = os.environ.get(VARIABLE), engine.backend.in_process and not isinstance(engine, Partner)
    if asked == "0" or not (here and data.kind == "shards" and isinstance(budget, Projection) and budget.reads_less):
        return None
    used = budget.used(data.n_rows, bytes_held(data.n_rows, data.nnz, state.wide))
    beyond = data.bytes > machine_memory() - used
    try:
        if asked != "1" and not beyond and not _brought_again(data):
            return None
        return HotRows(data, folder(), state.lengths, state.wide)
    except OSError:  # the disk is full
        return None


def _brought_again(data: Dataset) -> bool:
    """Tell whether shards come from elsewhere, and more of them than can be kept here."""
    return any(isinstance(shard, RemoteShard) for shard in data.shards) and data.bytes > room()


def _mark(part: slice, marks: np.ndarray, doubt: Doubt, f: ByRow) -> np.ndarray:
    """Mark rows by the band that they belong to; return how many nonzeros each band has, that of no rows first."""
    t, width = _distance(part, doubt, f)
    band = np.ones(t.size, np.int8)
    for edge in BANDS:
        band += t > edge * width
    band[doubt.state.costs[part] == 0.0] = 1  # rows left out are read every time
    band[band > len(BANDS)] = 0
    marks[part] = band
    return np.bincount(band, doubt.state.lengths[part], len(BANDS) + 1)


def _mark_more(part: slice, hot: HotRows, band: int, within: tuple[Doubt, float], f: ByRow) -> int:
    """Mark rows that are in no band and are wanted now, or soon; return how many nonzeros these have."""
    doubt, reach = within
    t, width = _distance(part, doubt, f)
    more = ~hot.has(part) & (doubt.awake[part] | (t <= reach * width))
    hot.marks[part][more] = band
    return int(doubt.state.lengths[part].sum(dtype=np.int64, where=more))


def _missing(part: slice, hot: HotRows, doubt: Doubt) -> int:
    """Return how many nonzeros rows have that are awake, and in no band."""
    return int(doubt.state.lengths[part].sum(dtype=np.int64, where=doubt.awake[part] & ~hot.has(part)))


def _unmark(part: slice, marks: np.ndarray, first: int) -> None:
    marks[part][marks[part] >= first] = 0


def _distance(part: slice, doubt: Doubt, f: ByRow) -> tuple[np.ndarray, np.ndarray]:
    """Return how far margins are from 1, and how far they may be off."""
    width = np.fmin(doubt.state.norms[part] * doubt.far[0].apart, doubt.weighted[part] * doubt.far[0].weighted)
    return np.abs(f[part] - 1.0), width
