"""Screening rules: one file a rule, each with an object that keeps ``contract.Rule``.

A rule names the pair (w, alpha) at C that makes a ball (``ball``), given a certified pair at C_ref. With rho = C/C_ref
(Ogawa et al. 2014; passes over the data beyond the one that certified the reference):

    gap   (w, alpha) at C_ref = C itself: the dynamic ball, radius^2 = gap when w = w_alpha            0 passes
    bt1   (w, rho alpha): the paper's ball test 1, which is also the DVI test                          0 passes
    bt2   (w, u_i s_i) for some s in [0, 1]: ball test 2                                               1 pass over
          its vector C_ref sum c_i s_i z_i is one more of the certifying pass                          undecided rows
    it    the intersection of the balls of bt1 and bt2                                                 the same pass
    none  proves nothing

Every rule is O(nonzeros): the products, and a few operations a row.

To add one: a file here with ``RULE = <an object of a subclass of Rule>``, and its name in ``RULES``. This module
imports none of them: the command line lists their names without loading compiled code.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pipeline.errors import SpecError, shown

if TYPE_CHECKING:
    from pipeline.maths.rules.contract import Rule

RULES = ("it", "bt1", "bt2", "gap", "none")  # the modules, in the order in which they are offered


def rule_named(name: str) -> Rule:
    """Return the rule of that name."""
    if name not in RULES:
        raise SpecError(f"unknown rule {shown(name)}; there are {', '.join(RULES)}")
    rule: Rule = import_module(f"{__name__}.{name}").RULE
    return rule
