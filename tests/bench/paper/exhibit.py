"""What a figure or table of the paper becomes: a section of the page, numbers for a file, claims that were checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pipeline.report.parts import PageSection, PageTable

PRINTED: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "printed.yaml").read_text())
APPROACHES: dict[str, tuple[str, bool]] = {
    "Full": ("none", False),
    "Shrink": ("none", True),
    "BT1": ("bt1", False),
    "Shrink+BT1": ("bt1", True),
    "IT": ("it", False),
    "Shrink+IT": ("it", True),
}
"""The paper's six: a rule, and whether the solver shrinks."""
KERNELS: tuple[str, ...] = tuple(PRINTED["kernels"])


@dataclass(frozen=True)
class Effort:
    """How much is done; ``name`` is the option that asks for it.

    Seconds are of CPU, and for one cell (a set with a kernel): its eps-path is cut after ``path`` of them, the six
    approaches get ``cell`` of them for as many C as that allows, and one that has not arrived after ``solve`` at a C is
    cut. Kernels take n^2 products: paths have them where these are at most ``kernel_path`` multiplications, the six
    approaches, which hold Q, up to ``kernel_cell`` rows. ``scale`` is that of the stand-ins in table 3.
    """

    name: str
    ratios: tuple[float, ...]
    path: float
    cell: float
    solve: float
    kernel_path: float
    kernel_cell: int
    scale: float
    turns: int
    toys: int


COARSE = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
FINE = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
QUICK = Effort("--quick", COARSE, 6.0, 3.0, 1.0, 2e9, 2_500, 0.01, 1, 5)
USUAL = Effort("", FINE, 120.0, 60.0, 30.0, 5e10, 9_000, 0.03, 3, 20)
FULL = Effort("--full", FINE, 600.0, 300.0, 120.0, 1e12, 9_000, 1.0, 1, 20)


@dataclass(frozen=True)
class Claim:
    """Something the paper says, whether it is so here, and what was found."""

    text: str
    holds: bool
    found: str


@dataclass
class Exhibit:
    """A figure or table: its name, what is shown, its numbers by column, and the claims that were checked."""

    name: str
    section: PageSection
    header: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    def finish(self) -> Exhibit:
        """Add what the page says of claims and slips."""
        if self.claims:
            rows = [(claim.text, "yes" if claim.holds else "NO", claim.found) for claim in self.claims]
            self.section.tables.append(
                PageTable("What the paper says", ("the paper says", "here", "found"), rows, names=3)
            )
        if slip := PRINTED["slips"].get(self.name):
            self.section.missing.insert(0, f"A slip of the paper, or a gap in it: {slip}")
        return self


def add_once(texts: list[str], text: str) -> None:
    """Add what was not said yet."""
    if text not in texts:
        texts.append(text)


def named(kernel: str) -> str:
    """Return what the page calls a kernel."""
    return kernel if kernel == "linear" else f"gamma {kernel}"


def exhibit(name: str, heading: str, lead: str, header: Sequence[str]) -> Exhibit:
    """Begin one."""
    return Exhibit(name, PageSection(f"{name.capitalize()[:-1]} {name[-1]}: {heading}", lead), tuple(header))
