"""What the paper's figures show, drawn from plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.draw.canvas import PALETTE, Draw, shown_name
from pipeline.draw.charts import over_c
from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from pipeline.report.parts import Figure

RULES = {"BT1": "red", "BT2": "green", "IT": "blue"}  # as in the paper
STYLES = {"BT1": "--", "BT2": ":", "IT": "-"}  # where curves lie on one another
CROWDED = ("D02", "D11", "MAGIC")  # sets of table 2 with a neighbour above and to their right
Numbers = Sequence[float] | np.ndarray


def toy(ax: Any, x: np.ndarray, verdicts: np.ndarray, w: np.ndarray) -> None:
    """Draw points by verdict, the classifier and its margins; rows identified are pale, those left are not."""
    looks = {ZERO: ("green", "R: alpha = 0"), UPPER: ("orange", "L: alpha = C"), KEEP: ("ink", "not identified")}
    for verdict, (colour, label) in looks.items():
        at = verdicts == verdict
        said = f"{label} ({np.count_nonzero(at):,})"
        ax.scatter(*x[at].T, s=5, color=PALETTE[colour], alpha=0.9 if verdict == KEEP else 0.45, lw=0, label=said)
    side = np.abs(x).max() * 1.05
    along = np.array([-w[1], w[0]]) / np.linalg.norm(w)
    for level, style in ((0.0, "-"), (1.0, "--"), (-1.0, "--")):
        ends = (level * w / (w @ w))[:, None] + along[:, None] * np.array([-2, 2]) * side
        ax.plot(*ends, color=PALETTE["blue"], linestyle=style, linewidth=1.6 if level == 0 else 0.9)
    ax.set_xlim(-side, side)
    ax.set_ylim(-side, side)
    ax.set_aspect("equal")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, markerscale=2.5, handletextpad=0.2)


def rates(ax: Any, at: Numbers, found: Mapping[str, Numbers], label: str) -> None:
    """Draw screening rates of the rules over C, or over what the label says."""
    for rule, values in found.items():
        dots = "o" if len(at) <= 15 else ""
        colour, style = PALETTE[RULES[rule]], STYLES[rule]
        ax.plot(at, values, color=colour, linestyle=style, marker=dots, markersize=2.5, label=rule, linewidth=1.4)
    if label == "C":
        over_c(ax, at, "screening rate")
    else:
        ax.set_xlim(0, 1.02)
        ax.set_xlabel(label)
        ax.set_ylabel("screening rate")
    ax.set_ylim(-0.03, 1.03)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(found))


def against_dome(ax: Any, ratios: Numbers, found: Mapping[str, Numbers], faster: Mapping[str, Numbers]) -> None:
    """Draw rates as bars on the left axis, and how many times as fast training is as lines on the right one."""
    places, colours = np.arange(len(ratios)), dict(zip(found, (PALETTE["blue"], PALETTE["orange"]), strict=True))
    for k, (rule, values) in enumerate(found.items()):
        ax.bar(places + (k - 0.5) * 0.38, values, 0.36, color=colours[rule], alpha=0.55, label=f"{rule}, rate")
    right = ax.twinx()
    for rule, values in faster.items():
        right.plot(places, values, color=colours[rule], marker="o", markersize=3, label=f"{rule}, times as fast")
    right.set_ylim(bottom=0)
    right.set_ylabel("times as fast as all rows")
    right.grid(visible=False)
    right.spines["right"].set_visible(True)
    ax.set_ylim(0, 1)
    ax.set_xticks(places, [f"{ratio:g}" for ratio in ratios])
    ax.set_xlabel("C_ref / C")
    ax.set_ylabel("screening rate")
    handles = [*ax.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
    ax.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def ratios(
    ax: Any, names: Sequence[str], here: Sequence[Mapping[str, float]], paper: Sequence[Sequence[float]]
) -> None:
    """Draw seconds over Full's: a line a row, ours filled, the paper's hollow, a colour an approach."""
    tints = dict(zip(list(here[0])[1:], ("grey", "red", "orange", "green", "blue"), strict=True))
    places = np.arange(len(names))[::-1]
    for k, (approach, tint) in enumerate(tints.items()):
        shift = (2 - k) * 0.13
        colour = PALETTE[tint]
        ours = [row.get(approach, np.nan) for row in here]
        ax.plot(ours, places + shift, "o", color=colour, markersize=4, label=approach)
        ax.plot([row[k + 1] for row in paper], places + shift, "o", color=colour, markersize=4, fillstyle="none")
    ax.axvline(1.0, color=PALETTE["ink"], linewidth=0.8)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(_plain)
    ax.minorticks_off()
    ax.set_yticks(places, [shown_name(name, 22) for name in names], fontsize=8)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("time over that of Full: filled here, hollow in the paper")
    ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=3)


def sizes(ax: Any, names: Sequence[str], printed: np.ndarray, here: np.ndarray) -> None:
    """Draw rows against features: as printed, and as here."""
    ax.plot(*printed.T, "o", color=PALETTE["grey"], markersize=9, fillstyle="none", label="printed")
    ax.plot(*here.T, "o", color=PALETTE["blue"], markersize=4, label="here (stand-ins at full size)")
    for name, at in zip(names, printed, strict=True):
        place, side = ((-5, -9), "right") if name in CROWDED else ((6, 4), "left")
        ax.annotate(name, at, xytext=place, ha=side, textcoords="offset points", fontsize=7)
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis, name in ((ax.xaxis, "rows"), (ax.yaxis, "features")):
        axis.set_label_text(name)
        axis.set_major_formatter(_plain)
    ax.minorticks_off()
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _plain(x: float, place: float) -> str:
    """Return a number as ticks show it."""
    del place
    return f"{x:g}"


def panels(figures: Sequence[Figure], columns: int) -> tuple[Draw, float, float]:
    """Return all figures of a section in one, with its width and height: what a file of it shows."""
    across = min(columns, len(figures))
    down = -(-len(figures) // across)

    def draw(ax: Any) -> None:
        whole = ax.figure
        ax.remove()
        for k, figure in enumerate(figures):
            part = whole.add_subplot(down, across, k + 1)
            figure.draw(part)
            part.get_legend().set_title(figure.title)  # above the names, which stand where a title would

    return draw, across * max(f.width for f in figures) * 0.8, down * max(f.height for f in figures)
