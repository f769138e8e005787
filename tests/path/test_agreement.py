"""Runs that decide together: whoever goes ahead of the others takes the steps that it would have taken with them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.path.agreement import Agreement, has_peaked
from pipeline.spec import PathSpec

GRID = tuple(10.0**k for k in range(12))


class Others:
    """An engine for one run beside others, whose scores by step are known; it notes where it was waited for them."""

    def __init__(self, scores, spec, wishes=GRID):
        self.spec, self.waited, self.told = spec, [], []
        self.scores, self.wishes = scores, wishes

    def tell(self, place, said):
        self.told.append(said)

    def meet(self, place, said):
        assert said is self.told[place]
        self.waited.append(place)
        wish = self.wishes[place] if place < len(self.wishes) else None
        others = [SimpleNamespace(c=wish, scores=each[place - 1] if place else None) for each in self.scores]
        return [said, *others]


def taken(own, others, spec):
    """Return how many steps a run takes, and where it has waited."""
    engine, steps = Others(others, spec), []
    agreement = Agreement(engine, spec)
    while (c := agreement.next(GRID[len(steps)] if len(steps) < len(GRID) else None, steps)) is not None:
        assert c == GRID[len(steps)]
        steps.append(SimpleNamespace(c=c, scores=own[len(steps)]))
    return len(steps), engine.waited, agreement.peaked


def scored(values):
    return [{"accuracy": value, "auc": 0.5} for value in values]


def test_a_run_goes_ahead_as_long_as_nobody_can_end_it():
    spec = PathSpec(grid=GRID, patience=4)
    rising = scored([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0])
    steps, waited, peaked = taken(rising, [rising], spec)
    assert (steps, peaked) == (10, True), "the peak and four more"
    assert waited == list(range(11)), "all of it is heard in the end"
    engine = Others([rising], spec)
    ahead = Agreement(engine, spec)
    done = [SimpleNamespace(c=c, scores=each) for c, each in zip(GRID, rising, strict=True)]
    for k in range(5):
        ahead.next(GRID[k], done[:k])
    assert engine.waited == [0, 1], "that scores are defined; four more steps follow anyway"


@pytest.mark.parametrize("settings", [{}, {"grid": GRID}])
def test_whose_c_are_not_known_waits_everywhere(settings):
    """Neither do runs wait that nothing ends."""
    spec = PathSpec(**settings)
    flat = scored([0.5] * 12)
    steps, waited, peaked = taken(flat, [flat], spec)
    assert (steps, peaked) == (12, False)
    assert waited == ([] if settings else list(range(13)))


def test_of_c_that_are_not_known_the_smallest_wish_is_taken():
    """Whatever scores say: patience alone lets nobody go ahead."""
    spec, steps, rising = PathSpec(patience=4), [], scored([0.1, 0.2, 0.3, 0.4])
    engine = Others([rising], spec, [1.0, 2.0, 3.0, 4.0])
    agreement = Agreement(engine, spec)
    for k, wish in enumerate([1.5, 1.9, 3.5, 5.0]):
        c = agreement.next(wish, steps)
        assert c == min(wish, k + 1.0)
        steps.append(SimpleNamespace(c=c, scores=rising[k]))
    assert engine.waited == [0, 1, 2, 3]


ACCURACIES = st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5]), min_size=12, max_size=12)
UNDEFINED = st.lists(st.booleans(), min_size=12, max_size=12)
# With the other's scores, until one is not defined, the peak is a step later than without them:
FALLING, NO, LATER = [0.5, 0.4, 0.3, 0.2, *([0.1] * 8)], [False] * 12, [False, False, *([True] * 10)]
WORSE = [0.1, 0.2, 0.3, 0.4, *([0.5] * 8)]  # of a loss


@example([(FALLING, NO, False), ([0.1, 0.9, *([0.1] * 10)], LATER, True)], 3, "f1")
@example([(WORSE, NO, False), ([0.9, 0.1, *([0.9] * 10)], LATER, True)], 3, "log_loss")
@given(
    st.lists(st.tuples(ACCURACIES, UNDEFINED, st.booleans()), min_size=2, max_size=4),
    st.integers(1, 5),
    st.sampled_from(["accuracy", "f1", "log_loss"]),
)
def test_the_end_is_where_all_scores_say(members, patience, select):
    spec = PathSpec(grid=GRID, patience=patience, select=select)
    found = []
    for values, undefined, one_class in members:  # where rows of one class are scored, scores come and go
        missing = [one_class and each for each in undefined]
        auc = None if one_class and select != "log_loss" else 0.5  # which margins that are no numbers leave undefined
        found.append([{select: None if no else v, "auc": auc} for v, no in zip(values, missing, strict=True)])
    by_step = list(zip(*found, strict=True))
    end = next((k for k in range(1, 13) if has_peaked(by_step[:k], spec)), 12)
    steps, _, peaked = taken(found[0], found[1:], spec)
    assert (steps, peaked) == (end, has_peaked(by_step[:end], spec))
