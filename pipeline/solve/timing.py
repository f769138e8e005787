"""What a solve by dcd or newton will take, predicted from shapes and counts, not from a clock.

The constants turn operations into seconds of one machine of 2026; what matters is their ratios. They were measured one
by one: a visit of dcd per nonzero, rows and features of a Newton step, pairs of nonzeros in its Gram matrix, steps of
Cholesky's. ``python -m tests.bench.calibrate`` measures them again: on the machine they are from, when it is busy,
within a factor of 0.2 to 2.3. They are not changed for another machine, where the same data must go the same way.
"""

from __future__ import annotations

from pipeline.solve.newton_system import DIRECT_SIZE, features_are_cheaper
from pipeline.solve.reduced import ReducedProblem

# Measured:
SECONDS_A_VISIT, SECONDS_A_FAR_VISIT = 1.6e-9, 3e-9  # of a nonzero by dcd, w in the cache and not
FAR_FEATURES = 100_000  # 8 bytes each: about what a core has of the cache for itself (a plain choice)
SECONDS_A_STEP = 2e-4  # of newton, whatever the problem: calls from Python
SECONDS_A_ROW = 2.5e-8  # its alpha, and its part in the line search
SECONDS_A_NONZERO, SECONDS_A_CELL = 1.8e-9, 7.5e-10  # of a product with Z and one with its transpose, sparse and dense
SECONDS_A_PAIR, SECONDS_A_PRODUCT = 7.5e-10, 2e-10  # of nonzeros in the Gram matrix of features, of rows
SECONDS_A_FLOP = 3e-11  # of Cholesky's n^3, and of BLAS's products
SECONDS_A_COPY = 1e-9  # of a cell of the free rows, scaled
SECONDS_A_CG_FEATURE = 8e-9  # of a step of conjugate gradients
CG_STEPS_A_SYSTEM = 30  # the most of nycflights13's and imdb50k_uni's, on average over a solve: 4 to 34, 7 to 29
# Fitted to 700 solves (see ``newton_seconds``):
FEWEST_STEPS, STEPS, STEPS_POWER = 5.0, 6.0, 0.09
LONGEST_WAY = 1e12  # a gap over a target of 0: as far as float64 goes


def descent_seconds(problem: ReducedProblem, work: float) -> float:
    """Return what so many visits of nonzeros take; far ones, where w does not fit into the cache, take longer."""
    return work * (SECONDS_A_FAR_VISIT if problem.z.shape[1] > FAR_FEATURES else SECONDS_A_VISIT)


def newton_seconds(problem: ReducedProblem, free: int, gap: float, target: float, scale: float) -> float:
    """Predict what newton takes from a gap down to a target with so many free alphas: its steps, each a system.

    ``scale`` is the mean u_i times the mean |z_i|^2, C without a unit. How steps grow with it and with the way to go
    was fitted to 700 solves from all kinds of starts (half of the predictions are within a factor of 1.4).
    """
    way = min(max(gap / target, 1.0), LONGEST_WAY) if target > 0.0 else LONGEST_WAY
    steps = max(STEPS * (way * scale) ** STEPS_POWER, FEWEST_STEPS)
    products = problem.nnz * (SECONDS_A_NONZERO if problem.is_sparse else SECONDS_A_CELL)
    system = _system_seconds(problem, free + 1)
    return steps * (SECONDS_A_STEP + problem.u.size * SECONDS_A_ROW + products + system)


def _system_seconds(problem: ReducedProblem, free: int) -> float:
    """Predict what one linear system takes; see ``newton_system`` for its kinds."""
    d, length = problem.z.shape[1], problem.row_length
    small = min(free, d)
    if small > DIRECT_SIZE:
        return CG_STEPS_A_SYSTEM * (descent_seconds(problem, free * length) + d * SECONDS_A_CG_FEATURE)
    if not problem.is_sparse:
        return free * d * SECONDS_A_COPY + (2 * free * d * small + small**3) * SECONDS_A_FLOP
    if d <= DIRECT_SIZE and features_are_cheaper(free, d, length):
        return free * length**2 * SECONDS_A_PAIR + d**3 * SECONDS_A_FLOP
    return free**2 * (length + 3) * SECONDS_A_PRODUCT + free**3 * SECONDS_A_FLOP
