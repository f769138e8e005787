"""README and guide as a reader meets them: every command of README is run in order, what it shows is what is printed.

A text block shows what the block before it prints on stdout; ``...`` stands for lines left out. Words and whole numbers
are compared as they are, other numbers up to what another processor may round differently; gaps are only small.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.cli import app
from tests.loaded import loaded_command
from tests.test_cli import TOP, parse

GUIDE = sorted((TOP / "pipeline" / "guide").glob("*.md"))
PAGES = [TOP / "README.md", *GUIDE, *(TOP / name for name in ("tests/README.md", "tests/bench/README.md"))]
PAGES += [TOP / "pipeline" / "README.md", TOP / "deploy" / "README.md"]
SET_UP = "python3 -m venv .venv && .venv/bin/pip install -q "
WHOLE, GAP = re.compile(r"[+-]?\d[\d,]*"), re.compile(r"\d\.\de-\d\d")


def blocks(page: Path, *kinds: str) -> list[tuple[str, str]]:
    """Return kind and text of the fenced blocks, in order."""
    found = re.findall(r"^( *)```(\w+)\n(.*?)^\1```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [(kind, text) for _, kind, text in found if not kinds or kind in kinds]


@contextmanager
def environment(place: Path, command: bool = True) -> Iterator[dict[str, str]]:
    """Make what ``pip install`` would have made, of the code as it is here; yield the environment of a shell.

    A program that calls no ``svmsieve`` does without that command.
    """
    tools = place / ".venv" / "bin"
    tools.mkdir(parents=True)
    (tools / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tools / "python").chmod(0o755)
    (tools / "activate").write_text(f'PATH="{tools}:$PATH"\n')
    with loaded_command(tools / "svmsieve") if command else nullcontext():
        yield {**os.environ, "PYTHONPATH": f"{TOP}:{TOP / 'pipeline' / 'public'}"}


def alike(shown: str, printed: str) -> bool:
    """Return whether a printed line is what was shown."""
    words, found = shown.split(), printed.split()
    return len(words) == len(found) and all(map(_alike_word, words, found))


def _alike_word(shown: str, printed: str) -> bool:
    """Return whether a word is the same, or a number that another machine may print in its place."""
    a, b = shown.strip("(),:"), printed.strip("(),:")
    if shown == printed or WHOLE.fullmatch(a):
        return shown == printed
    if GAP.fullmatch(a):
        return GAP.fullmatch(b) is not None and float(b) <= 1e-4
    try:
        return math.isclose(float(a), float(b), rel_tol=0.02, abs_tol=0.003)
    except ValueError:
        return False


def differing(shown: str, printed: str) -> str | None:
    """Return the first line that was shown and is not printed where it should be."""
    left, skipping = printed.splitlines(), False
    for line in shown.splitlines():
        if line == "...":
            skipping = True
            continue
        while skipping and left and not alike(line, left[0]):
            left.pop(0)
        if not left or not alike(line, left.pop(0)):
            return line
        skipping = False
    return left[0] if left and not skipping else None


def test_what_is_shown_is_compared():
    printed = "a 0.9559 b\nmore\nrun: 569 rows, gap 3.1e-08\n"
    assert differing("a 0.956 b\n...\nrun: 569 rows, gap 9.0e-09\n", printed) is None
    assert differing("a 0.9559 b\n...\n", printed) is None
    for wrong in (
        "a 0.9 b\n...\n",
        "a 0.9559 b\nrun: 569 rows, gap 3.0e-08\n",
        "a 0.9559 b\nmore\n",
        "...\nrun: 568 rows\n",
    ):
        assert differing(wrong, printed) is not None
    assert differing("gap 1.0e-05\n", "gap 1.0e-03\n") is not None


@pytest.mark.slow
def test_every_command_of_readme_works_in_order(tmp_path):
    compared = 0
    with environment(tmp_path) as where:
        for (kind, text), (next_kind, shown) in pairwise([*blocks(TOP / "README.md"), ("", "")]):
            if kind not in ("bash", "python") or "pytest" in text:
                continue
            line = text.removeprefix(f"{SET_UP}. && ")
            command = (
                ["bash", "-euo", "pipefail", "-c", line]
                if kind == "bash"
                else [sys.executable, "-W", "error", "-c", line]
            )
            done = subprocess.run(command, cwd=tmp_path, env=where, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            if ". .venv/bin/activate" in line:  # what the rest of a reader's session has
                where["PATH"] = f"{tmp_path / '.venv' / 'bin'}:{where['PATH']}"
            if next_kind == "text":
                compared += 1
                assert differing(shown, done.stdout) is None, done.stdout
    assert compared >= 3


def test_readme_is_short_and_sets_up_in_two_commands():
    text = (TOP / "README.md").read_text()
    assert text.count("\n") <= 150
    commands = [block for _, block in blocks(TOP / "README.md", "bash")]
    assert [b for b in commands if "pip install" in b] == commands[:2]
    assert all(b.startswith(SET_UP) and b.count("\n") == 1 for b in commands[:2])


def test_readme_shows_a_picture_that_its_commands_make():
    text = (TOP / "README.md").read_text()
    (shown,) = re.findall(r"!\[[^\]]{20,}\]\(([^)]*)\)", text[: text.index("## ")])
    picture = (TOP / shown).read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) < 60_000
    assert any(f"--out {Path(shown).name} " in block for _, block in blocks(TOP / "README.md", "bash"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_the_guide_is_linked_and_its_commands_parse():
    assert {page.name for page in GUIDE} == set(
        re.findall(r"pipeline/guide/(\w+\.md)", (TOP / "README.md").read_text())
    )
    for page in GUIDE:
        for line in "".join(text for _, text in blocks(page, "bash")).splitlines():
            for command in re.findall(r"svmsieve ([^#&]*)", line):
                parse(command)
    named = re.findall(r"svmsieve (\w+)", "".join(text for page in GUIDE for _, text in blocks(page, "bash")))
    assert set(named) == set(app.commands)


def test_the_python_of_the_guide_runs_in_order(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for _, text in blocks(TOP / "pipeline" / "guide" / "python.md", "python"):
        exec(compile(text, "python.md", "exec"), names)  # noqa: S102 - our own page
    accuracy, chosen, tuned, figures, shapes, _, share, lazy, shape, passes = capsys.readouterr().out.splitlines()
    assert float(accuracy) > 0.95
    assert chosen.endswith("(569, 2)")
    best, smallest, tuned_gap = map(float, tuned.split())
    assert smallest <= best
    assert tuned_gap <= 1e-4
    steps, _, gap, accuracy = map(float, figures.split())
    assert steps > 50
    assert gap <= 1e-5
    assert accuracy > 0.9
    assert shapes == "(30,) (569,) (569,)"
    assert 0.5 < float(share) < 1.0
    assert float(lazy) > 0.95
    assert shape == "(569,)"
    c_min, near = passes.split(maxsplit=1)
    assert 0 < float(c_min) < 1e-3
    assert near == "(284, 30)"
