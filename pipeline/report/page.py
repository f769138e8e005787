"""A page as one HTML file: no script, nothing from elsewhere, light and dark, for screens and paper.

Everything that comes from data goes through Jinja2's autoescape; the only markup that does not is what ``draw`` makes,
which escapes what it is given.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pipeline.draw.canvas import inline_svg
from pipeline.installed import version
from pipeline.report.parts import Figure, Page


def html(page: Page) -> bytes:
    """Return the file."""
    return _environment().get_template("page.html.j2").render(page=page).encode()


def made_by() -> str:
    """Return who made a page."""
    return f"svmsieve {version('svmsieve')}"


@cache
def _environment() -> Environment:
    loader = PackageLoader("pipeline.report", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["svg"] = _svg
    return made


def _svg(figure: Figure, name: str) -> Markup:
    drawn = inline_svg(figure.draw, figure.title, figure.description, name, figure.width, figure.height)
    return Markup(drawn)  # noqa: S704 - made here; names in it are escaped by who draws
