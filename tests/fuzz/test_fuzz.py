"""The fuzzer finds what it is there to find: failures planted at known cases, of every kind."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from random import Random

import pytest

from pipeline.errors import DataError
from tests.fuzz import __main__ as command
from tests.fuzz import runner
from tests.fuzz.judge import Target, WrongError
from tests.fuzz.reading import FileTarget
from tests.fuzz.runner import fuzz
from tests.fuzz.targets import TARGETS

pytestmark = [
    pytest.mark.attack,
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
PLANTED = {
    3: "ValueError",
    5: "died of SIGSEGV",
    6: "the process ended with 7",
    8: "longer than",
    10: "MemoryError",
    11: "an error that names no file",
    12: "an error without a word",
    13: "accepted, but a value is another",
    14: "UserWarning",
}


class Planted(Target):
    name = "planted"

    def attempt(self, chance, folder):
        chance.random()
        path, case = str(folder / "rows"), int(folder.name.removeprefix("case-"))
        if case == 3:
            raise ValueError("a bare error")
        if case == 5:
            faulthandler.disable()  # pytest's, which would tell the story
            os.kill(os.getpid(), signal.SIGSEGV)
        if case == 6:
            os._exit(7)
        if case == 8:
            time.sleep(60)
        if case == 10:
            bytearray(1 << 40)
        if case == 11:
            raise DataError("something is wrong")
        if case == 12:
            raise DataError("")
        if case == 13:
            raise WrongError("a value is another")
        if case == 14:
            import warnings  # noqa: PLC0415

            warnings.warn("a second line on stderr", stacklevel=1)
        if case % 2:
            raise DataError("is damaged; write it again", path=path)


def test_planted_failures_are_found_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "LONGEST_CASE", 0.5)
    tally = fuzz(Planted(), 0, tmp_path, 20, None)
    found = {failure.case: failure.kind for failure in tally.failures}
    assert found.keys() == PLANTED.keys()
    assert all(found[case].startswith(kind) for case, kind in PLANTED.items()), found
    assert tally.cases == 20


def test_the_command_counts_tells_how_to_repeat_and_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "LONGEST_CASE", 0.5)
    monkeypatch.setitem(TARGETS, "planted", Planted)
    monkeypatch.setattr(sys, "argv", ["fuzz", "--only", "planted", "--cases", "8", "--seed", "4"])
    with pytest.raises(SystemExit) as stop:
        command.main()
    said = capsys.readouterr().out
    assert stop.value.code == 1
    assert "8 cases, 3 failures" in said
    assert "python -m tests.fuzz --only planted --seed 4 --case 5" in said


def test_a_case_is_repeated_alone(monkeypatch, capsys):
    monkeypatch.setitem(TARGETS, "planted", Planted)
    monkeypatch.setattr(command, "limit_memory", lambda: None)  # it would last
    for case, code in ((3, 1), (4, 0)):
        monkeypatch.setattr(sys, "argv", ["fuzz", "--only", "planted", "--case", str(case)])
        with pytest.raises(SystemExit) as stop:
            command.main()
        assert stop.value.code == code
    assert "a bare error" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if issubclass(target, FileTarget)])
def test_a_case_is_the_same_input_every_time(name, tmp_path):
    target = TARGETS[name]()
    target.prepare(tmp_path)
    made = [[target.make(Random(f"{name} 0 {case}")).content for case in range(50)] for _ in range(2)]
    assert made[0] == made[1]
    assert len(set(made[0])) > 40


@pytest.mark.parametrize("name", [*TARGETS])
def test_a_little_of_every_target(name, tmp_path):
    tally = fuzz(TARGETS[name](), 0, tmp_path, 40, None)
    assert tally.cases == 40
    assert not tally.failures
