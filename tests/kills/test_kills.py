"""The script that kills finds what a careless command loses, and what it breaks for a moment."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.forked import Server
from tests.kills.killer import kill_scene
from tests.kills.scenes import LostError, Scene

pytestmark = pytest.mark.attack
WORDS = [f"word {number}\n" for number in range(30)]


def rewrite(path: str, careful: bool) -> None:
    """Write a file anew, word by word: carefully under another name first, or over the old one."""
    target = Path(path)
    written = target.with_suffix(".tmp") if careful else target
    with written.open("w") as stream:
        for word in WORDS:
            stream.write(word)
            stream.flush()
            time.sleep(0.001)
    written.replace(target)
    os._exit(0)


class Rewriting(Scene):
    name = "rewriting"

    def __init__(self, careful: bool) -> None:
        self.careful = careful

    def make(self, folder):
        folder.mkdir()
        (folder / "words").write_text("old")

    def command(self, folder, errors):
        return rewrite, str(folder / "words"), self.careful

    def check(self, folder):
        found = (folder / "words").read_text()
        if found not in ("old", "".join(WORDS)):
            raise LostError(f"half written: {len(found)} characters")
        return found[:3], False

    def contents(self, folder):
        return {"words": (folder / "words").read_text()}


@pytest.fixture(scope="module")
def server():
    running = Server(time.sleep, 0.0)
    yield running
    running.close()


@pytest.mark.parametrize("careful", [True, False])
def test_a_careless_writer_is_found(server, careful, tmp_path, capsys):
    assert kill_scene(server, Rewriting(careful), tmp_path, 8, 0) is careful
    said = capsys.readouterr().out
    assert ("8 kills" in said and "nothing lost" in said) if careful else "half written" in said
