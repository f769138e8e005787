"""What figures show, drawn from plain arrays on axes of Matplotlib's: curves over C, areas, bars, curves of a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipeline.draw.canvas import PALETTE, colours, shown_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_TICKS = 7  # of an axis of C
STYLES = ("-", "--", ":")  # of lines, six colours each
DECADES_OF_GAPS = 6  # below tol that are drawn: closed forms have gaps of rounding alone
Numbers = Sequence[float] | np.ndarray


def over_c(ax: Axes, cs: Numbers, label: str) -> None:
    """Let the horizontal axis be C, in decades, and name the vertical one."""
    ax.set_xscale("log")
    ax.set_xlabel("C")
    ax.set_ylabel(label)
    if len(cs) == 1:
        ax.set_xlim(cs[0] / 3, cs[0] * 3)
    elif len(cs):
        ax.set_xlim(min(cs), max(cs))
    ax.locator_params(axis="x", numticks=MOST_TICKS)
    ax.xaxis.set_major_formatter(_plain)
    ax.minorticks_off()


def _plain(x: float, place: float) -> str:
    """Return a number as ticks show it: 0.001, 10, 1e+05."""
    del place
    return f"{x:g}"


def validation(
    ax: Axes,
    cs: Numbers,
    mean: Numbers,
    errors: Numbers | None,
    folds: Sequence[tuple[Numbers, Numbers]],
    marks: Mapping[str, float],
    label: str,
) -> None:
    """Draw a score over C: its mean, a band of one standard error, a thin line a fold, and the C that are marked."""
    at, score = np.asarray(cs, float), np.asarray(mean, float)
    for k, (where, each) in enumerate(folds):
        named = "folds" if k == 0 else None
        ax.plot(where, np.asarray(each, float), color=PALETTE["grey"], linewidth=0.7, alpha=0.8, label=named)
    if errors is not None:
        se = np.nan_to_num(np.asarray(errors, float))
        ax.fill_between(at, score - se, score + se, color=PALETTE["blue"], alpha=0.2, linewidth=0, label="± 1 SE")
    marker = "o" if at.size <= 40 else ""
    ax.plot(at, score, color=PALETTE["blue"], marker=marker, markersize=3, label="mean" if folds else label)
    for (name, c), colour in zip(marks.items(), (PALETTE["orange"], PALETTE["green"]), strict=False):
        ax.axvline(c, color=colour, linewidth=1.2, linestyle="--", label=f"{name}: C = {c:.4g}")
    over_c(ax, at, label)
    if folds or errors is not None or marks:
        _above(ax, 3)


def gaps(ax: Axes, cs: Numbers, found: Numbers, tol: float) -> None:
    """Draw relative gaps over C below the tolerance."""
    values = np.asarray(found, float)
    floor = max(values[values > 0].min(initial=tol), tol * 10.0**-DECADES_OF_GAPS)
    ax.plot(cs, np.maximum(values, floor), color=PALETTE["blue"], marker="o", markersize=2, linewidth=0.8)
    ax.axhline(tol, color=PALETTE["red"], linewidth=1.2, linestyle="--", label=f"tol {tol:g}")
    ax.set_yscale("log")
    ax.set_ylim(floor / 1.5, tol * 3)
    ax.yaxis.set_major_formatter(_plain)
    over_c(ax, cs, "relative gap")
    ax.legend(loc="lower right")


def stacked(ax: Axes, cs: Numbers, parts: Mapping[str, Numbers], label: str, share: bool = False) -> None:
    """Draw what adds up, over C: as areas, each part on top of those before."""
    tints = [*colours(len(parts) - 1), PALETTE["grid"]] if share else colours(len(parts))  # kept ones recede
    ax.stackplot(cs, *parts.values(), labels=list(parts), colors=tints, linewidth=0, alpha=0.9)
    over_c(ax, cs, label)
    if share:
        ax.set_ylim(0, 1)
    else:
        ax.set_ylim(bottom=0)
    _above(ax, len(parts))


def lines(ax: Axes, cs: Numbers, parts: Mapping[str, Numbers], label: str, share: bool = False) -> None:
    """Draw a line for each of some quantities over C."""
    for (name, values), colour in zip(parts.items(), colours(len(parts)), strict=True):
        dots = "o" if len(cs) <= 40 else ""
        ax.plot(cs, np.asarray(values, float), color=colour, marker=dots, markersize=3, label=name)
    over_c(ax, cs, label)
    if share:
        ax.set_ylim(-0.02, 1.02)
    else:
        ax.set_ylim(bottom=0)
    if len(parts) > 1:
        _above(ax, len(parts))


def several(ax: Axes, lines: Mapping[str, tuple[np.ndarray, np.ndarray]], label: str) -> None:
    """Draw curves over C that have C of their own."""
    for (name, (cs, values)), colour in zip(lines.items(), colours(len(lines)), strict=True):
        dots = "o" if cs.size <= 40 else ""
        ax.plot(cs, values, color=colour, marker=dots, markersize=3, label=name)
    over_c(ax, np.concatenate([cs for cs, _ in lines.values()]), label)
    _above(ax, len(lines))


def weight_bars(ax: Axes, names: Sequence[str], values: Numbers) -> None:
    """Draw weights as bars from zero, the largest on top."""
    w, places = np.asarray(values, float), np.arange(len(names))[::-1]
    ax.barh(places, w, color=np.where(w >= 0, PALETTE["blue"], PALETTE["orange"]), height=0.7)
    ax.set_yticks(places, [shown_name(name) for name in names])
    ax.tick_params(axis="y", length=0, labelsize=8)
    ax.axvline(0, color=PALETTE["ink"], linewidth=0.8)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("weight")
    ax.margins(y=0.02)


def weight_paths(ax: Axes, cs: Numbers, names: Sequence[str], paths: np.ndarray, chosen: float | None) -> None:
    """Draw the weights of some features over C, and the C of the chosen model."""
    for k, (name, path) in enumerate(zip(names, paths, strict=True)):
        style = STYLES[k // 6 % len(STYLES)]
        ax.plot(cs, path, color=colours(k + 1)[k], linestyle=style, linewidth=1.3, label=shown_name(name, 22))
    ax.axhline(0, color=PALETTE["ink"], linewidth=0.8)
    if chosen is not None:
        ax.axvline(chosen, color=PALETTE["grey"], linewidth=1.0, linestyle="--")
    over_c(ax, cs, "weight")
    _above(ax, 2, size=7)


def unit_curves(
    ax: Axes, curves: Mapping[str, tuple[Numbers, Numbers]], labels: tuple[str, str], base: tuple[float, float] | None
) -> None:
    """Draw curves in the unit square; ``base`` is what guessing gives at 0 and 1, where it is the same for all."""
    if base is not None:
        ax.plot((0, 1), base, color=PALETTE["grey"], linewidth=1.0, linestyle="--", label="guessing")
    for k, (name, (x, y)) in enumerate(curves.items()):
        ax.plot(x, y, color=colours(k + 1)[k], linestyle=STYLES[k // 6 % len(STYLES)], label=shown_name(name, 22))
    ax.set_xlim(-0.01, 1.01)
    ax.set_ylim(-0.01, 1.01)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    ax.legend(loc="best")


def reliability(
    ax: Axes, at: Numbers, share: Numbers, bars: tuple[np.ndarray, np.ndarray], said: Numbers | None, label: str
) -> None:
    """Draw how often rows of a bin are positive, with what chance leaves open, and what the calibration says."""
    x, y = np.asarray(at, float), np.asarray(share, float)
    spread = np.maximum(0.0, np.stack([y - bars[0], bars[1] - y]))
    if said is None:
        ax.axvline(0, color=PALETTE["grey"], linewidth=1.0, linestyle="--")
    else:
        ax.plot(x, np.asarray(said, float), color=PALETTE["orange"], label="calibration")
    ax.errorbar(
        x, y, spread, color=PALETTE["blue"], marker="o", markersize=3, linewidth=0, elinewidth=1, label="rows left out"
    )
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel(label)
    ax.set_ylabel("share of positive rows")
    ax.legend(loc="upper left")


def histogram(ax: Axes, edges: Numbers, sides: Mapping[str, Numbers]) -> None:
    """Draw how many rows of each class have which scores."""
    for (name, counts), colour in zip(sides.items(), (PALETTE["orange"], PALETTE["blue"]), strict=True):
        label, numbers = shown_name(name, 24), np.asarray(counts, float)
        ax.stairs(numbers, np.asarray(edges, float), fill=True, color=colour, alpha=0.55, label=label)
    ax.axvline(0, color=PALETTE["ink"], linewidth=0.8)
    ax.set_xlabel("score")
    ax.set_ylabel("rows")
    _above(ax, 2)


def heat(ax: Axes, shares: np.ndarray, counts: np.ndarray, names: Sequence[str]) -> None:
    """Draw a confusion: a row a true class, a column what was said, each cell as dark as its share of the row."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415 - only to draw

    size = len(names)
    for k, j in np.ndindex(size, size):
        if not counts[k, j]:
            continue
        colour, alpha = PALETTE["blue"] if k == j else PALETTE["orange"], 0.15 + 0.6 * float(shares[k, j])
        ax.add_patch(Rectangle((j - 0.5, k - 0.5), 1, 1, color=colour, alpha=alpha, linewidth=0))
        if size <= 10:
            ax.text(j, k, f"{counts[k, j]:,}", ha="center", va="center", fontsize=7)
    labels, places = [shown_name(name, 14) for name in names], range(size)
    if size <= 30:
        ax.set_xticks(places, labels, rotation=45 if size > 5 else 0, ha="right" if size > 5 else "center", fontsize=7)
        ax.set_yticks(places, labels, fontsize=7)
    ax.set_xlim(-0.5, size - 0.5)
    ax.set_ylim(size - 0.5, -0.5)
    ax.grid(visible=False)
    ax.set_xlabel("called")
    ax.set_ylabel("is")


def by_night(ax: Axes, nights: Sequence[str], parts: Mapping[str, Numbers], label: str, bars: bool = False) -> None:
    """Draw quantities night by night: lines, or bars on top of one another (those below zero downwards)."""
    places = np.arange(len(nights))
    above, below = np.zeros(len(nights)), np.zeros(len(nights))
    for (name, values), colour in zip(parts.items(), colours(len(parts)), strict=True):
        numbers = np.asarray(values, float)
        if bars:
            numbers = np.nan_to_num(numbers)
            ax.bar(places, numbers, bottom=np.where(numbers < 0, below, above), color=colour, label=name, width=0.8)
            above, below = above + np.maximum(numbers, 0), below + np.minimum(numbers, 0)
        else:
            ax.plot(places, numbers, color=colour, marker="o", markersize=3, label=name)
    every = max(1, -(-len(nights) // 6))
    ax.set_xticks(places[::every], [night[5:] for night in nights[::every]])
    ax.set_ylabel(label)
    if bars:
        ax.axhline(0, color=PALETTE["ink"], linewidth=0.8)
        if all(float(x).is_integer() for values in parts.values() for x in values):
            ax.locator_params(axis="y", integer=True)
    _above(ax, len(parts))


def _above(ax: Axes, columns: int, size: int = 8) -> None:
    """Put the legend above the axes, where nothing is drawn."""
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    ax.legend(**place, ncols=min(columns, 4), handlelength=1.4, fontsize=size)
