"""Every rule keeps its contract, and every one that is there is offered."""

from __future__ import annotations

import subprocess
import sys
from pkgutil import iter_modules

import numpy as np
import pytest

from pipeline.errors import SpecError
from pipeline.maths import rules
from pipeline.maths.certificate import sums_of
from pipeline.maths.certified_pair import certified_pair
from pipeline.maths.rules import RULES, rule_named
from pipeline.maths.rules.contract import Rule

C = 2.0


@pytest.fixture
def pair():
    """Any pair of two rows at C, with the signs' vector of the first row at its bound."""
    z, alpha = np.eye(2), np.array([C, 0.5])
    w = z.T @ alpha
    sums = sums_of(C, z @ w, alpha, np.ones(2), np.ones(2), np.full(2, 2), 3.0)
    bare = certified_pair(C, sums, w)
    return bare, bare.with_signs(C * z[0], [w], 0.0, 1.0)


def test_the_folder_and_the_list_agree():
    assert sorted(name for _, name, _ in iter_modules(rules.__path__) if name != "contract") == sorted(RULES)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_keeps_its_contract(name, pair):
    rule, (bare, signed) = rule_named(name), pair
    assert isinstance(rule, Rule)
    assert rule.name == name
    assert rule.at_its_own_c in RULES
    assert not rule_named(rule.at_its_own_c).needs_signs, "a step that goes on has no time for another vector"
    for c in (C / 3, C, 3 * C):
        region = rule.region(signed if rule.needs_signs else bare, c)
        assert bool(region.balls) == (name != "none" and (name != "gap" or c == C))
    if rule.needs_signs:
        with pytest.raises(ValueError, match=f"{name} needs a reference with the vector of the signs"):
            rule.region(bare, C)


def test_unknown_rules_are_refused():
    for name in ("magic", "contract", "", None):
        with pytest.raises(SpecError, match=r"unknown rule .*; there are it, bt1, bt2, gap, none"):
            rule_named(name)


def test_names_of_rules_and_solvers_load_no_compiled_code():
    """The command line lists them: half a second of imports would be too much for that."""
    code = "import sys, pipeline.spec; print([m for m in ('numba', 'scipy') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"
