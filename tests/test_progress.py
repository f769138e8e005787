"""Progress for people: what stays on a narrow terminal, and how long it will still take."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from pipeline.cli import SECTIONS, app
from pipeline.cli.table import say_facts
from pipeline.engine.engine import Engine
from pipeline.events import Progress, StepProgress
from pipeline.maths.eps_grid import usual_steps_left
from pipeline.path.path import run_path
from pipeline.path.train import train_run
from pipeline.progress import _fitted, _pieces, _step_line, _ways
from pipeline.spec import PathSpec
from pipeline.steady import RISES, Steady, roughly
from pipeline.time_left import KEPT, LEAST_SECONDS, SLOWER, TimeLeft
from tests.test_cli import run
from tests.trained import shards_of, sparse_rows
from tests.watched import SVMSIEVE, on_a_terminal

STEP = StepProgress(12, 0.0001734, 0.3, 0.98, 123_456, 1.1e-14, 1.0, True, {"balanced_accuracy": 0.9259, "auc": 0.99})
COLUMNS = 80


def lines_on_a_terminal(*words: str) -> list[str]:
    """Run svmsieve on a terminal of 80 columns; return the lines it was shown, without their colours."""
    shown = on_a_terminal(*SVMSIEVE, *words, columns=COLUMNS)
    return re.split(r"[\r\n]+", re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown).decode())


def test_a_bar_on_80_columns_keeps_what_matters(tmp_path):
    lines = lines_on_a_terminal("path", "breast_cancer", "--holdout", "0.2", "--out", str(tmp_path / "run"))
    bars = [line.rstrip() for line in lines if re.match(r"\w+ +[━╸╺]", line)]
    assert any(re.match(r"path +[━╸╺]{20} C = \S+, accuracy 0\.\d{4}, ", line) for line in bars)
    assert [line for line in bars if len(line) > COLUMNS or "…" in line] == []
    result = [line for line in lines if re.match(r" +(step|\d+\*?) ", line)]
    assert len(result) >= 12 and max(map(len, result)) <= COLUMNS
    assert result[0].split() == ["step", "C", "screened", "solved", "free", "at", "bound", "gap", "seconds", "accuracy"]
    begin = next(k for k, line in enumerate(lines) if "certified models" in line)
    closing = [line for line in lines[begin:] if line]
    assert len(closing) == 2 and max(map(len, closing)) <= COLUMNS
    said = " ".join(line.strip() for line in closing)
    assert re.search(
        r"\d+ certified models, relative gap at most \S+, \S+ passes a model, \S+ s, peak memory \S+ MB$", said
    )


def test_facts_are_broken_between_and_never_within(capsys, monkeypatch):
    facts = ["277 certified models", "relative gap at most 9.8e-05", "23.2 s", "peak memory 293.1 MB"]
    say_facts("run", facts)
    assert capsys.readouterr().out == f"run: {', '.join(facts)}\n", "a file has one line"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for columns in range(31, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        say_facts("run", facts)
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= columns
        assert " ".join(line.strip() for line in lines) == f"run: {', '.join(facts)}"
        assert all(line.endswith((",", ":")) for line in lines[:-1])
    monkeypatch.setenv("COLUMNS", "80")
    say_facts("x" * 90, facts)
    assert capsys.readouterr().out.splitlines()[0] == "x" * 90 + ":", "a name is whole"


def test_the_longest_score_and_the_time_left_fit():
    pieces = _pieces(STEP, 2700.0, 60.0)
    assert _fitted(pieces, COLUMNS - len("path") - 23) == "C = 0.0001734, balanced_accuracy 0.9259, ~45 min left"
    assert _fitted(pieces, 200).endswith("98% screened, 123,456 rows solved for, gap 1.1e-14, 1.0 passes")
    read = _pieces(Progress("ingest", 400_000, 1_300_000, 2_600_000), 40.0, 10.0)
    assert _fitted(read, COLUMNS - len("ingest") - 23) == "400,000 rows, ~40 s left, 1.3 MB of 2.6 MB (50%)"


def test_a_round_keeps_the_score_of_the_step_before():
    pieces = _pieces(replace(STEP, done=False), 720.0, 60.0)
    assert _fitted(pieces, COLUMNS - len("path") - 23) == "C = 0.0001734, 0.9259 before, ~12 min left"


def test_every_event_after_the_first_step_has_the_score_that_counts(tmp_path):
    events = []
    data = shards_of(tmp_path, sparse_rows(150), bias=1.0)
    with Engine("inline") as engine:
        spec = PathSpec(c_max=10.0, epsilon=0.3, holdout=0.3, select="auc", memory=10**9)
        run = run_path(engine, data, spec, tmp_path / "run", listen=events.append)
    steps = [event for event in events if isinstance(event, StepProgress) and (event.done or event.step)]
    assert not all(event.done for event in steps)
    said = [(next(iter(event.scores)), event.scores["auc"]) for event in steps]
    assert said == [("auc", run.steps[event.step - (not event.done)].scores["auc"]) for event in steps]


def test_a_path_with_folds_is_one_way(tmp_path):
    """The main run is a part of it, and how many steps the folds have is known from it."""
    events = []
    data = shards_of(tmp_path, sparse_rows(150), bias=1.0)
    spec = PathSpec(c_max=10.0, epsilon=0.3, cv=3, memory=10**9)
    with Engine("inline") as engine:
        run = train_run(engine, data, spec, tmp_path / "run", None, events.append)
    steps = [event for event in events if isinstance(event, StepProgress) and event.done]
    count = len(run.steps)
    assert len(steps) == 4 * count
    main, folds = steps[:count], steps[count:]
    assert {event.follow for event in main} == {3} and {event.follow for event in folds} == {None}
    shares = [event.share for event in steps]
    assert shares == sorted(shares) and max(shares[:count]) <= 1 / 4 and shares[-1] == pytest.approx(1.0)
    assert folds[-1].steps_left == 0
    left = TimeLeft(SLOWER)
    found = [left.told(event.share, 10.0 * k, *_ways(event)) for k, event in enumerate(steps)]
    true = [10.0 * (4 * count - k) for k in range(4 * count)]
    assert found[2 * count : -1] == pytest.approx(true[2 * count : -1], rel=0.4, abs=20)


def test_a_line_says_all_of_it():
    said = "98% screened, 123,456 rows solved for, gap 1.1e-14, 1.0 passes, balanced_accuracy 0.9259"
    assert _step_line(STEP, None) == f"step 12: C = 0.0001734, {said}"
    assert _step_line(STEP, 7200.0) == f"step 12: C = 0.0001734, {said}, about 2 h left"


def guesses(moment):
    """Return (moment, seconds left) as they are guessed of a path, where the moment of a share is known."""
    left = TimeLeft(SLOWER)
    return [(moment(k / 100), left.told(k / 100, moment(k / 100))) for k in range(100)]


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_where_time_is_a_power_of_the_share_the_guess_is_right_in_the_end(power):
    hours = 36_000.0
    found = guesses(lambda share: hours * share**power)
    assert all(left == pytest.approx(hours - now, rel=0.15) for now, left in found[80:])
    assert all(1 / 2.5 < left / (hours - now) < 2.5 for now, left in found[20:])


def test_every_byte_takes_as_long_as_any_other():
    left = TimeLeft()
    assert [left.told(k / 100, float(k)) for k in range(100)][3:] == pytest.approx(list(range(97, 0, -1)))


def test_steps_that_get_slower_do_not_make_hours_of_minutes():
    found = [left for _, left in guesses(lambda share: 36_000 * share**2)][20:]
    assert max(found) <= 1.2 * found[0]
    plain = [36_000 * share**2 * (1 - share) / share for share in (0.2, 0.5)]
    assert plain[1] > 1.5 * plain[0], "a guess from the mean speed would grow"


def test_steps_that_get_longer_are_counted():
    """A path in 120 steps of a second, each 4 % longer in log C than the one before."""
    left, way = TimeLeft(), np.cumsum(1.04 ** np.arange(120))
    found = [left.told(share, float(k)) for k, share in enumerate(way / way[-1])]
    assert found[40:119] == pytest.approx(119 - np.arange(40, 119), rel=0.1, abs=2)
    assert 40 * (1 / (way[40] / way[-1]) - 1) > 10 * 79, "from the share that is done alone it would be hours"


def test_one_long_step_is_no_trend():
    """Steps of a second, and one of two minutes on the way."""
    left, moments = TimeLeft(), np.cumsum(np.where(np.arange(160) == 24, 120.0, 1.0))
    found = [left.told(k / 159, float(now)) for k, now in enumerate(moments)]
    assert found[30:159] == pytest.approx(159 - np.arange(30, 159), abs=2)


def test_nor_are_a_few_that_compile():
    """Half a minute each, in steps of a second; as many more are a trend."""
    for few in (3, 8):
        left, moments = (
            TimeLeft(),
            np.cumsum(np.where(np.arange(160) % 7 + 10 * (np.arange(160) // 7 >= few), 1.0, 30.0)),
        )
        found = [left.told(k / 159, float(now)) for k, now in enumerate(moments)]
        alike = found[60] == pytest.approx(99, abs=3)
        assert alike == (few == 3)


def test_steps_to_come_are_no_shorter_than_the_last_ones():
    """Fifty steps of a tenth of a second, then of five."""
    left, moments = TimeLeft(SLOWER), np.cumsum(np.where(np.arange(100) < 50, 0.1, 5.0))
    found = [left.told(k / 100, float(now)) for k, now in enumerate(moments)]
    assert found[56:] == pytest.approx([5 * (100 - k) for k in range(56, 100)], rel=0.1)


def test_what_follows_a_path_is_as_long_as_it():
    """100 steps of a second, and five folds of them."""
    left = TimeLeft()
    found = [left.told(k / 100 / 6, float(k), follow=5) for k in range(100)]
    assert found[10:] == pytest.approx([600 - k for k in range(10, 100)], rel=0.01)
    then = [left.told((1 + 5 * k / 500) / 6, 100.0 + k, None, 500.0 - k) for k in range(1, 500)]
    assert then == pytest.approx([500 - k for k in range(1, 500)], rel=0.02)


# of imdb50k_uni, in tenths of its steps: ms a step, and share and rows at their bound at the end
IMDB = [62, 77, 101, 122, 213, 275, 450, 605, 900, 2546]
IMDB_SHARE = [0, 0.12, 0.21, 0.30, 0.39, 0.47, 0.54, 0.60, 0.64, 0.69, 0.74]
IMDB_BOUND = [1, 0.99, 0.96, 0.92, 0.89, 0.85, 0.79, 0.71, 0.59, 0.43, 0.0]


def rise(found):
    """Return by how much numbers rise above the least before."""
    found = np.array([guess for guess in found if guess is not None])
    return float(np.max(found / np.minimum.accumulate(found)))


def test_what_is_shown_hardly_rises_where_steps_get_40_times_as_slow():
    steps = np.arange(210)
    moments = np.cumsum(np.interp(steps, np.arange(10, 210, 21), IMDB)) * 0.02
    tenths = np.arange(11) * 21
    ways = [np.interp(steps, tenths, each) for each in (IMDB_SHARE, IMDB_BOUND)]
    shown, plain = Steady(TimeLeft(SLOWER)), TimeLeft()
    told = [
        (float(share), float(now), float(at_bound), None, usual_steps_left(1e-3, k))
        for k, (share, now, at_bound) in enumerate(zip(*ways[:1], moments, *ways[1:], strict=True))
    ]
    early = [way for way in told if way[1] < 0.95 * moments[-1]]
    found = [shown.told(*way) for way in early]
    assert rise(found) <= 1.25 * RISES, "once"
    assert rise([plain.told(*way) for way in early]) > 4
    when = np.linspace(0.05, 0.95, 100) * moments[-1]
    at = np.array(found, float)[np.searchsorted(moments[: len(found)], when) - 1]
    assert np.exp(np.median(np.abs(np.log(at / (moments[-1] - when))))) < 2.1


class _Said(TimeLeft):
    """Says what it is told to."""

    def told(self, share, now, *way):
        return share


def test_what_is_shown_falls_and_rises_when_it_has_been_wrong_for_a_while():
    shown = Steady(_Said())
    said = [(None, 0, None), (720, 100, 600), (1200, 110, 600), (600, 120, 600), (1190, 130, 600)]
    said += [(1250, 135, 600), (1260, 150, 1200)]  # above twice of it for more than a tenth of the time
    said += [(2700, 160, 1200), (900, 170, 900), (30, 180, 30), (2, 190, 2), (9, 400, 2), (11, 500, 10)]
    assert [shown.told(guess, float(now)) for guess, now, _ in said] == [seconds for _, _, seconds in said]


def test_what_is_shown_is_a_round_number():
    found = [roughly(seconds) for seconds in (0.0, 1.2, 9.4, 12.0, 13.0, 88.0, 100.0, 719.0, 5000.0, 5500.0, 43_000.0)]
    assert found == [1, 1, 9, 10, 15, 90, 120, 600, 5100, 7200, 36_000]


def test_a_path_may_end_for_lack_of_rows_at_their_bound():
    left = TimeLeft()
    found = [left.told(k / 400, float(k), at_bound=1 - k / 100) for k in range(100)]
    assert found[20:] == pytest.approx(100 - np.arange(20, 100), rel=0.1)
    stuck = TimeLeft()
    found = [stuck.told(k / 400, float(k), at_bound=0.9) for k in range(100)]
    assert found[20:] == pytest.approx(400 - np.arange(20, 100), rel=0.1)


def test_steps_that_somebody_counts_are_believed():
    """Shares that grow ever more slowly, as long as nobody knows how many there will be."""
    left = TimeLeft()
    found = [left.told(k / (k + 20), float(k), None, 20.0) for k in range(60)]
    assert found[20:] == pytest.approx([20.0] * 40, rel=0.01)
    slower = TimeLeft()
    said = [slower.told(k / (k + 20), float(k * k), None, 20.0) for k in range(60)]
    assert said[20:] == pytest.approx([20.0 * k for k in range(20, 60)]), "the last stage goes back to a smaller C"


def test_a_few_long_steps_are_no_trend_where_it_is_known_how_many_there_usually_are():
    """Each of the first steps is 10 % longer than the one before, then all are alike: 158 in all."""
    way = np.cumsum(np.where(np.arange(158) < 20, 1.1 ** np.arange(158), 1.1**20))
    blind, told = TimeLeft(), TimeLeft()
    at = [(k, float(share)) for k, share in enumerate(way / way[-1])][:-1]
    alone = [blind.told(share, float(k)) for k, share in at]
    found = [told.told(share, float(k), None, None, usual_steps_left(1e-3, k)) for k, share in at]
    true = 157 - np.arange(157)
    assert alone[19] < true[19] / 3, "growth that does not go on"
    assert found[19:] == pytest.approx(true[19:], rel=0.5, abs=5)
    assert max(found[19:]) <= 1.2 * found[19], "it hardly rises"


def test_what_is_usual_counts_less_the_more_is_known():
    """A path of 600 steps of a second, where 158 are usual; and one of 40, to a C that is soon reached."""
    for count in (600, 40):
        left = TimeLeft()
        found = [left.told(k / count, float(k), None, None, usual_steps_left(1e-3, k)) for k in range(count)]
        late = range(count // 2, count)
        assert [found[k] for k in late] == pytest.approx([count - k for k in late], rel=0.45)
        first = next(guess for guess in found if guess is not None)
        assert first == pytest.approx(min(count, 158), rel=0.25)


def test_steps_get_slower_by_a_factor_each():
    """120 steps, each 1 % slower than the one before: 3.3 times as slow in the end."""
    left, moments = TimeLeft(), np.cumsum(1.01 ** np.arange(121))
    found = [left.told(k / 120, now, None, None, usual_steps_left(1e-3, k)) for k, now in enumerate(moments[:-1])]
    true = moments[-1] - moments[:-1]
    assert found[30:] == pytest.approx(true[30:], rel=0.6)
    assert max(found[30:]) <= 1.1 * found[30]


def test_the_usual_number_of_steps_goes_with_eps():
    assert usual_steps_left(1e-5, 0) == pytest.approx(10 * usual_steps_left(1e-3, 0))
    assert all(usual_steps_left(1e-3, done) > 0 for done in range(1, 1000))


def test_of_very_many_steps_some_are_kept():
    left = TimeLeft()
    number = 20 * KEPT
    found = [left.told(k / number, k / 200) for k in range(number)]
    tenths = [number * tenth // 10 for tenth in range(1, 10)]
    assert [found[k] for k in tenths] == pytest.approx([(number - k) / 200 for k in tenths], rel=0.05)
    assert len(left._moments) <= KEPT


def test_what_was_done_before_is_not_counted():
    left = TimeLeft()
    assert left.told(0.6, 1000.0) is None  # a run that goes on, after a minute of reading
    assert left.told(0.7, 1010.0) == pytest.approx(30.0)
    assert left.told(0.7, 1015.0) == pytest.approx(25.0), "it counts down"
    assert left.told(0.7, 1100.0) == pytest.approx(20.0), "but by no more than one step of three"


def test_nobody_knows_at_first_nor_at_the_end():
    left = TimeLeft()
    assert [left.told(share, now) for share, now in ((0.0, 0.0), (0.01, 5.0), (0.5, LEAST_SECONDS / 2))][:2] == [
        None
    ] * 2
    assert TimeLeft().told(1.0, 5.0) is None
    assert left.told(1.0, 9.0) is None


def test_the_list_of_data_sets_fits_a_narrow_terminal(capsys):
    lines = lines_on_a_terminal("datasets", "list")
    assert max(map(len, lines)) <= COLUMNS
    _, plain, _ = run(capsys, "datasets", "list")
    assert set(plain.split()) - {"what", "it", "is"} <= set(" ".join(lines).split()), "every word is whole"


def test_help_has_every_command_in_one_section(capsys):
    _, out, _ = run(capsys, "--help")
    found = re.findall(r"^(\S.*):\n((?:  \S.*\n)+)", out.partition("--help")[2], re.MULTILINE)
    shown = {title: [line.split()[0] for line in lines.splitlines()] for title, lines in found}
    assert shown == {title: list(names) for title, names in SECTIONS.items()}
    assert sorted(name for names in shown.values() for name in names) == sorted(app.commands)
