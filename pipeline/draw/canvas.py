"""The one module that knows Matplotlib: makes a figure, has it drawn on, and writes it; the same bytes every time.

Nothing in a file depends on when or where it was drawn: SVG has a fixed hash salt and no date, and text in it is text.
In a page, colours of the palette become variables of its style sheet, so that a figure follows light and dark. Names
are drawn as they are: no mathematics between dollar signs, and a letter that the font has not is no warning.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = {
    "ink": "#1f2933",
    "grid": "#d5dbe3",
    "grey": "#8b95a3",
    "blue": "#2563a8",
    "orange": "#c4570a",
    "green": "#2e7d4f",
    "purple": "#7b4fa3",
    "red": "#b3261e",
}
SERIES = ("blue", "orange", "green", "purple", "red", "grey")
WIDTH, HEIGHT = 5.0, 3.0  # inches: in a column of a page, or on a telephone, letters have their size
FORMATS = (".svg", ".png", ".pdf")
LONGEST_NAME = 34  # characters: at 9 points half the width
_NO_DATES: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".png": {"Software": None},
}
_RC = {
    "svg.hashsalt": "svmsieve",
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "path.simplify": True,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), PALETTE["ink"]),
    "grid.color": PALETTE["grid"],
}
Draw = Callable[["Axes"], None]


def drawn(draw: Draw, suffix: str, width: float = WIDTH, height: float = HEIGHT) -> bytes:
    """Return a figure as a file of this format."""
    transparent = {} if suffix == ".svg" else {"dpi": 200}
    with _figure(draw, width, height, "path") as figure:
        return _saved(figure, suffix, facecolor="white", **transparent)


def inline_svg(
    draw: Draw, title: str, description: str, name: str = "f", width: float = WIDTH, height: float = HEIGHT
) -> str:
    """Return a figure as an element of a page: with a title and a description, in the colours of its style sheet.

    Ids in it begin with ``name``, which no other figure of the page has.
    """
    with _figure(draw, width, height, "none") as figure:
        text = _saved(figure, ".svg", transparent=True).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # ids that every figure of the page has
    text = re.sub(r'id="([^"]*)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{name}-", text)
    for colour, value in PALETTE.items():
        text = text.replace(value, f"var(--{colour})")
    text = re.sub(r"font: [^;\"]*?([\d.]+)px [^;\"]*", r"font: \1px var(--sans)", text)
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    head = f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" xmlns="http://www.w3.org/2000/svg" {box[0]} role="img"'
    said = f"<title>{escaped(title)}</title><desc>{escaped(description)}</desc>"
    return f"{head}>{said}{text[text.index('>') + 1 :]}".strip()


def draw_on(ax: Axes | None, draw: Draw) -> Axes:
    """Draw on axes of the caller's, or on new ones of pyplot's; return them."""
    with _style("path"):
        if ax is None:
            from matplotlib import pyplot  # noqa: PLC0415 - only who asks for new axes needs it

            _, ax = pyplot.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")
        draw(ax)
    return ax


def shown_name(name: str, most: int = LONGEST_NAME) -> str:
    """Return a name for a figure: one printable line that is not too long."""
    plain = "".join(c if c.isprintable() else "?" for c in " ".join(name.split()))
    return plain if len(plain) <= most else f"{plain[: most // 2]}…{plain[-(most - most // 2 - 1) :]}"


def escaped(text: str) -> str:
    """Return text that is text in XML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


@contextmanager
def _style(letters: str) -> Iterator[None]:
    import matplotlib as mpl  # noqa: PLC0415 - half a second, and only to draw

    with mpl.rc_context(_RC | {"svg.fonttype": letters}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


@contextmanager
def _figure(draw: Draw, width: float, height: float, letters: str) -> Iterator[Any]:
    with _style(letters):
        from matplotlib.figure import Figure  # noqa: PLC0415 - as above

        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.add_subplot())
        yield figure


def _saved(figure: Any, suffix: str, **more: Any) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format=suffix[1:], metadata=_NO_DATES[suffix], **more)
    return stream.getvalue()


def colours(count: int) -> Sequence[str]:
    """Return so many colours of the palette, again from the first when there are no more."""
    return [PALETTE[SERIES[k % len(SERIES)]] for k in range(count)]
