"""The paper again, a slice of it on bundled data: what it says is so, and what is missing is said."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from html import unescape
from xml.etree import ElementTree

import numpy as np
import pytest

from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from tests.bench.paper import far_references
from tests.bench.paper.__main__ import NAMES, exhibits, main
from tests.bench.paper.against_dome import dome, least_c
from tests.bench.paper.exact import Exact
from tests.bench.paper.exhibit import APPROACHES, KERNELS, PRINTED, QUICK
from tests.bench.paper.kept import Kept
from tests.bench.paper.output import write
from tests.bench.paper.sets import PaperSet, Sets
from tests.in_memory.screening import screen

HOSTILE = "<script>alert(1)</script> & $\\frac{x$"
SLICE = replace(QUICK, ratios=(0.5, 0.95), path=0.5, cell=0.05, solve=10.0, scale=0.0005, toys=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """All of it, where no set but breast cancer is there, which has a hostile name."""
    folder = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRINTED["table2"]["D01"], "name", HOSTILE)
        patch.setenv("SVMSIEVE_CACHE", str(folder / "nothing fetched"))
        found = exhibits(NAMES, Sets(folder / "no data"), SLICE, Kept(folder / "kept", {}))
        write(found, SLICE, "a command", folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def rows(made):
    """The numbers of each file."""

    def read(name):
        with (made / f"{name}.csv").open(newline="") as stream:
            return list(csv.DictReader(stream))

    return read


@pytest.fixture(scope="module")
def toy_problem():
    rng = np.random.default_rng(5)
    y = np.where(rng.random(120) < 0.5, 1.0, -1.0)
    return Exact(PaperSet("x", "x", rng.standard_normal((120, 3)) + 0.8 * y[:, None], y, ""))


def numbers(lines, *names):
    return [np.array([float(line[name]) for line in lines]) for name in names]


def test_it_is_never_below_the_better_ball(rows):
    lines = rows("figure4")
    one, two, both = numbers(lines, "BT1", "BT2", "IT")
    assert {(line["set"], line["kernel"]) for line in lines} == {("D01", kernel) for kernel in KERNELS}
    assert (both >= np.maximum(one, two)).all()
    assert (both > np.maximum(one, two)).any() and both.max() > 0.5
    assert (both <= 1).all()


def test_it_is_never_below_bt1_along_the_path(rows):
    lines = rows("figure5")
    one, both = numbers(lines, "BT1", "IT")
    assert {line["set"] for line in lines} == {"D01"}
    assert (both >= one).all() and one.max() > 0.5


def test_the_toy_is_mostly_identified(rows):
    lines = rows("figure1")
    both, one = (numbers([line for line in lines if line["rule"] == rule], "identified")[0] for rule in ("IT", "BT1"))
    assert both.size == SLICE.toys
    assert both.min() > 0.7 and (both >= one).all()


def test_six_approaches_are_compared(rows):
    lines = rows("table4")
    assert [line["kernel"] for line in lines] == list(KERNELS)
    one, both, full = numbers(lines, "left open by BT1", "left open by IT", "Full")
    assert (both <= one).all() and both.min() < 0.9
    assert full.tolist() == [1.0] * len(lines)
    assert all(float(line[name]) > 0 for line in lines for name in APPROACHES)


def test_stand_ins_stand_in(rows):
    lines = rows("table3")
    assert [line["set"].split(":")[0] for line in lines] == ["D10 url", "D11 kdd-a", "D12 kdd-b"]
    one, both = numbers(lines, "BT1 rate", "IT rate")
    assert (both >= one).all()


def test_the_page_has_all_of_it_beside_what_is_printed(made):
    text = unescape((made / "index.html").read_text())
    for name in NAMES:
        assert f"{name.capitalize()[:-1]} {name[-1]}: " in text
        ElementTree.fromstring((made / f"{name}.svg").read_bytes())  # noqa: S314 - ours
    assert "printed (389 s)" in text and "printed (16875 s)" in text  # table 4, D01 linear; table 3, D12
    assert "D02 dna (2,000 x 180) is not here: `svmsieve datasets fetch dna` gets it" in text
    assert text.count("A slip of the paper, or a gap in it") == len(PRINTED["slips"])


def test_names_stay_text_and_ids_are_of_one_element(made):
    text = (made / "index.html").read_text()
    assert "<script" not in text
    assert HOSTILE in unescape(text)
    known = re.findall(r' id="([^"]*)"', text)
    assert len(known) == len(set(known))


def test_printed_numbers_are_whole():
    assert PRINTED["approaches"] == list(APPROACHES)
    assert list(PRINTED["table4"]) == [f"D0{k}" for k in range(1, 9)]
    assert all(list(found) == list(KERNELS) for found in PRINTED["table4"].values())
    listed = [found[kernel] for found in PRINTED["table4"].values() for kernel in KERNELS]
    listed += [found["seconds"] for found in PRINTED["table3"].values()]
    assert all(len(seconds) == 6 and min(seconds) > 0 for seconds in listed)
    faster = [min(seconds[3], seconds[5]) < seconds[1] for seconds in listed]
    assert faster.count(False) == 1  # D07 linear, as the paper says


@pytest.mark.parametrize(("row", "verdict"), [("upper", ZERO), ("zero", UPPER), ("free", ZERO)])
def test_a_support_vector_that_is_screened_is_an_error(toy_problem, row, verdict):
    at = toy_problem.optimum(1.0)
    where = {"upper": at.alpha == 1.0, "zero": at.alpha == 0.0, "free": at.on_margin}[row]
    found = np.full(at.alpha.size, KEEP)
    found[np.flatnonzero(where)[0]] = verdict
    with pytest.raises(AssertionError, match="1 rows are screened"):
        at.rate(found)


def test_a_kernels_problem_is_a_linear_one():
    rng = np.random.default_rng(6)
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    exact = Exact(PaperSet("x", "x", rng.standard_normal((60, 2)) + 0.5 * y[:, None], y, ""), "1/d")
    at = exact.optimum(2.0)
    assert at.pair.reference.certificate.relative_gap < 1e-7
    assert exact.q @ at.alpha == pytest.approx(at.pair.products[0], abs=1e-8)
    assert at.rate(screen(exact.rows, exact.optimum(1.9).pair, 2.0, "it").verdicts) > 0.3


def test_the_dome_is_held_against_the_optimum(toy_problem):
    c_a = 100 * least_c(toy_problem.rows)
    at, there, last = (toy_problem.optimum(factor * c_a) for factor in (1.0, 1.02, 1.05))
    w = last.pair.vectors[0]
    assert there.rate(dome(toy_problem.rows, at, float(w @ w))) > 0.1


def test_a_command_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    """Killed at the second of four kernels of a figure: the first is not measured again, and a torn line is."""
    measured = []

    def rates(rows, kernel, ratios):
        if len(measured) == 2:
            measured.append("killed")
            raise KeyboardInterrupt
        measured.append(kernel)
        return {name: [0.5] * len(ratios) for name in ("BT1", "BT2", "IT")}

    monkeypatch.setattr(far_references, "rates", rates)
    command = ["--out", str(tmp_path), "--data", str(tmp_path), "--only", "figure4", "table2", "--quick"]
    with pytest.raises(KeyboardInterrupt):
        main(command)
    with (tmp_path / "unfinished" / "measured.jsonl").open("a") as stream:
        stream.write('["figure4 D01 1/d", {"BT1": [0.')
    main(command)
    assert measured == [*KERNELS[:2], "killed", *KERNELS[2:]]
    assert not (tmp_path / "unfinished").exists()
    main([*command, "--cell-seconds", "7"])
    assert "after 7 s" in unescape((tmp_path / "index.html").read_text())


def test_other_settings_measure_again(tmp_path):
    folder = tmp_path / "kept"
    assert Kept(folder, {"a": 1}).of("x", lambda: (1, 2)) == [1, 2]
    assert Kept(folder, {"a": 1}).of("x", lambda: 3) == [1, 2]
    assert Kept(folder, {"a": 2}).of("x", lambda: 3) == 3
    assert len(Kept(folder, {"a": 2})) == 1


def test_the_page_says_what_is_still_to_come(tmp_path):
    seen = []
    kept = Kept(tmp_path / "kept", {})

    def show(made):
        write(made, SLICE, "a command", tmp_path / "out", ["table9"])
        seen.append(len(made))

    exhibits(("figure1", "table2"), Sets(tmp_path), SLICE, kept, show)
    assert seen == [1, 2]
    assert "Not finished yet: table9." in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize("seconds", ["0", "-1", "nan"])
def test_seconds_are_above_zero(tmp_path, capsys, seconds):
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path), "--cell-seconds", seconds])
    assert "is not above 0" in capsys.readouterr().err


def test_a_folder_that_is_none_is_said(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--out", str(tmp_path / "out"), "--data", str(tmp_path / "none")])
    assert ended.value.code == 2
    assert "none: is no folder" in capsys.readouterr().err
