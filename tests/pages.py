"""The public API as HTML pages, from its docstrings: ``python -m tests.pages DIR``."""

from __future__ import annotations

import sys
from pathlib import Path

import pdoc
import pdoc.render

import svmsieve


def write_pages(out: Path) -> None:
    """Write a page of all names of ``svmsieve``, and one of its errors."""
    for name in svmsieve.__all__:  # loaded when they are asked for, and pdoc does not ask
        getattr(svmsieve, name)
    pdoc.render.configure(docformat="numpy", show_source=False)
    pdoc.pdoc("svmsieve", "pipeline.errors", output_directory=out)


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
