"""job.yaml: what is wrong is said with the line where it stands."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.errors import JobError
from pipeline.nightly.gate import read_gate
from pipeline.nightly.job import read_job
from tests.trained import command

GOOD = """\
inputs: incoming
store: store
"""
EXAMPLE = Path(__file__).parents[2] / "deploy" / "job.yaml"


def written(folder: Path, text: str) -> Path:
    (folder / "job.yaml").write_text(text)
    return folder / "job.yaml"


def test_the_least_job(tmp_path):
    job = read_job(written(tmp_path, GOOD))
    assert (job.inputs, job.store) == ((str(tmp_path / "incoming"),), tmp_path / "store")
    spec = job.training.spec(None, 10**9)
    assert (spec.grid, spec.holdout, spec.memory) == (None, 0.1, 10**9)
    assert job.training.spec(2.0, 10**9).grid == (1.0, 2.0, 4.0)


def test_all_settings(tmp_path):
    text = """
inputs: [a/*.csv, "s3://bucket/clicks/*.svm.gz"]
store: /data/clicks
reading: {format: csv, positive: 1, bias: 1, features: 10, index_base: 0, duplicates: sum, label_column: y,
          weight_column: w, rows_per_shard: 1000, shard_size: 1MB}
window: 30
train: {around: 1, tol: 1e-3, memory: 4GB, class_weight: [1, 2.5], rule: bt1, solver: dcd, c_max: 10, epsilon: 0.1}
holdout: 0.25
select: auc
gate: [accuracy >= yesterday - 0.002, "auc > 0.7"]
keep: {runs: 3}
scheduler: tls://host:8786
workers: 2
solve_on: worker
"""
    job = read_job(written(tmp_path, text))
    assert job.inputs == (str(tmp_path / "a/*.csv"), "s3://bucket/clicks/*.svm.gz")
    assert (job.window, job.keep, job.scheduler, job.workers, job.solve_on) == (30, 3, "tls://host:8786", 2, "worker")
    assert (job.reading.positive, job.reading.bias, job.reading.shard_bytes) == ("1", 1.0, 10**6)
    assert (job.reading.reading.rules.base, job.reading.reading.rules.features) == (0, 10)
    spec = job.training.spec(0.5, 7)
    assert (spec.grid, spec.tol, spec.memory, spec.class_weight) == ((0.5,), 1e-3, 4 * 10**9, (1.0, 2.5))
    assert (spec.holdout, spec.select, spec.rule, spec.solver) == (0.25, "auc", "bt1", "dcd")
    assert [gate.text for gate in job.gates] == ["accuracy >= yesterday - 0.002", "auc > 0.7"]


WRONG = {
    "inputs: [": "line 1: not valid YAML",
    "": "the file is empty",
    "- a\n- b\n": "line 1: the file must be a mapping",
    "inputs: a\n": "line 1: store is missing",
    GOOD + "windo: 3\n": "line 3: unknown name 'windo'; did you mean window?",
    GOOD + "window: 3\nwindow: 4\n": "line 4: window stands here twice",
    GOOD + "window: three\n": "line 3: window: 'three' is not a whole number from 1 on",
    GOOD + "window: 0\n": "line 3: window: 0 is not a whole number from 1 on",
    GOOD + "store2: 3\n": "line 3: unknown name",
    "inputs: 5\nstore: x\n": "line 1: inputs: 5 is not text",
    "inputs: []\nstore: x\n": "line 1: inputs: the list is empty",
    "inputs: a\nstore: s3://bucket/x\n": "line 2: store: must be a local directory",
    GOOD + "train:\n  tol: 1e-4\n  rule: magic\n": "line 5: rule: 'magic' is not one of it",
    GOOD + "train:\n  tol: 2\n": "line 4: tol: is a relative gap below 1",
    GOOD + "train:\n  memory: lots\n": "line 4: memory: 'lots' is not a size",
    GOOD + "train:\n  around: 0.5\n": "line 4: around: is a ratio from 1 on, not 0.5",
    GOOD + "train:\n  path: true\n  around: 2\n": "line 5: around: path and around exclude each other",
    GOOD + "train:\n  class_weight: heavy\n": "line 4: class_weight: 'heavy' is neither balanced nor a pair",
    GOOD + "train: 5\n": "line 3: train must be a mapping",
    GOOD + "reading:\n  bias: many\n": "line 4: bias: 'many' is not a number",
    GOOD + "reading:\n  formt: csv\n": "line 4: unknown name 'formt'; did you mean format?",
    GOOD + "holdout: 1.5\n": "line 3: holdout: is a share of the rows",
    GOOD + "select: luck\n": "line 3: select: 'luck' is not one of accuracy",
    GOOD + "gate: [accuracy >= 0.5, luck >= 0.5]\n": "line 3: gate: there is no score 'luck'",
    GOOD + "gate: log_loss >= 0.5\n": "line 3: gate: 'log_loss >= 0.5' is the wrong way round: log_loss is better",
    GOOD + "gate: auc <= 0.5\n": "line 3: gate: 'auc <= 0.5' is the wrong way round: auc is better the larger it is",
    GOOD + "gate: log_loss < 0.5\n": "line 3: gate: log_loss < 0.5: this score is made only if it is selected by",
    GOOD + "gate: better\n": "line 3: gate: 'better' is not a gate; write for example",
    GOOD + "holdout: 0\ngate: auc > 0.5\n": "line 3: holdout: is above 0: the best C and the gates need rows to score",
    GOOD + "keep: {runs: -1}\n": "line 3: runs: -1 is not a whole number from 0 on",
    GOOD + "keep: {nights: 3}\n": "line 3: unknown name 'nights'",
    GOOD + "scheduler: 3\n": "line 3: scheduler: 3 is not text",
}


HOSTILE = {
    GOOD + "expect: 5\n": "line 3: expect must be a mapping",
    GOOD + "expect:\n  files: -1\n": "line 4: files: -1 is not a whole number from 0 on",
    GOOD + "expect:\n  row: 10\n": "line 4: unknown name 'row'; did you mean rows?",
    GOOD + "notify: 'mail \"ops\n": "line 4: not valid YAML",
    GOOD + "notify: mail 'ops\n": "line 3: notify: No closing quotation",
    GOOD + "notify: ''\n": "line 3: notify: '' is not text",
    GOOD + "notify: '  '\n": "line 3: notify: the command is empty",
    GOOD + "notify: [mail, 5]\n": "line 3: notify: 5 is not text",
    GOOD + "max_line: long\n": "line 3: max_line: 'long' is not a size",
    GOOD + "max_line: 0\n": "line 3: max_line: 0 is not a whole number from 1 on",
    GOOD + "reading: {max_line: 1MB}\nmax_line: 1MB\n": "line 4: max_line: stands in reading, too",
    GOOD + "? [a, b]\n: 3\n": "line 3: a name is expected here",
    GOOD + "window: 999999999999\n": "line 3: window: 999999999999 is above 36525",
    GOOD + "workers: 1000000000\n": "line 3: workers: 1000000000 is above",
    GOOD + "window: !!timestamp x\n": "line 3: window: cannot be understood",
    GOOD + "window: !!bool x\n": "line 3: window: cannot be understood",
    GOOD + "holdout: " + "9" * 400 + "\n": "line 3: holdout: 9999",
    GOOD + "holdout: .nan\n": "line 3: holdout: nan is not a finite number",
    GOOD + "train: {memory: " + "9" * 400 + "}\n": "line 3: memory: 9999",
    GOOD + "train: {memory: -5}\n": "line 3: memory: -5 is not a whole number from 1 on",
    GOOD + "train: {memory: [1]}\n": "line 3: memory: [1] is not text",
    GOOD + "reading: {positive: [1]}\n": "line 3: positive: [1] is not text",
    GOOD + "reading: {positive: yes}\n": "line 3: positive: True is not text",
    GOOD + "reading: {bias: .inf}\n": "line 3: bias: inf is not a finite number",
    GOOD + "reading: {features: 99999999999}\n": "line 3: features: 99999999999 is above",
    'inputs: a\nstore: "a\\0b"\n': "line 2: store: 'a\\x00b' holds characters that are not printable",
    'inputs: "a\\nb"\nstore: x\n': "line 1: inputs: 'a\\nb' holds characters",
    '"a\\nb": 1\n"a\\nb": 2\n': "line 2: 'a\\nb' stands here twice",
    "- " * 2000: "not valid YAML (nested too deeply)",
    "# " + "x" * (1 << 20): "is larger than 1048576 bytes",
    "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefghijk"))
    + "store: *k\ninputs: y\n": "unknown name 'a'",
    "inputs: &a [x, x, x, x, x, x, x, x, x]\nstore: &b [*a, *a, *a, *a]\n": "line 2: store: [['x', 'x'",
    "inputs: &a [*a]\nstore: x\n": "line 1: inputs: ",
}


@pytest.mark.attack
@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_job_file_is_one_line(tmp_path, number):
    text, expected = list(HOSTILE.items())[number]
    with pytest.raises(JobError) as raised:
        read_job(written(tmp_path, text))
    said = str(raised.value)
    assert expected in said and said.isprintable() and len(said) < 500


@pytest.mark.attack
def test_what_operators_set(tmp_path):
    text = GOOD + "expect: {files: 1, rows: 1000}\nnotify: mail -s 'svmsieve night' ops@example.org\nmax_line: 1MB\n"
    job = read_job(written(tmp_path, text))
    assert job.reading.max_line == 10**6
    assert read_job(written(tmp_path, GOOD + "reading: {max_line: 5}\n")).reading.max_line == 5
    assert (job.expected.files, job.expected.rows) == (1, 1000)
    assert job.notify == ("mail", "-s", "svmsieve night", "ops@example.org")


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_with_its_line(tmp_path, text):
    path = written(tmp_path, text)
    with pytest.raises(JobError) as raised:
        read_job(path)
    said = str(raised.value)
    assert said.startswith(f"{path}") and WRONG[text] in said
    assert "\n" not in said


def test_a_missing_file_is_wrong_usage(tmp_path, capsys):
    code, _, err = command(capsys, "nightly", tmp_path / "none.yaml")
    assert code == 2
    assert "none.yaml: cannot be read (No such file" in err


def test_no_object_is_made_from_yaml(tmp_path):
    text = GOOD + "scheduler: !!python/object/apply:os.getcwd []\n"
    with pytest.raises(JobError, match="line 3: scheduler: could not determine a constructor"):
        read_job(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "today", "yesterday", "passed"),
    [
        ("accuracy >= yesterday - 0.002", 0.898, 0.9, True),
        ("accuracy >= yesterday - 0.002", 0.8979, 0.9, False),
        ("accuracy >= yesterday", 0.9, 0.9, True),
        ("accuracy > yesterday", 0.9, 0.9, False),
        ("accuracy >= yesterday + .01", 0.905, 0.9, False),
        ("accuracy>=0.5", 0.5, None, True),
        ("accuracy > 5e-1", 0.5, 0.9, False),
        ("accuracy >= yesterday - 0.002", 0.1, None, True),
        ("accuracy >= 0.5", float("nan"), None, False),
        ("accuracy >= yesterday", 0.9, float("nan"), False),
    ],
)
def test_gates(text, today, yesterday, passed):
    before = None if yesterday is None else {"accuracy": yesterday}
    assert read_gate(text).judge({"accuracy": today}, before).passed is passed


@pytest.mark.parametrize(
    ("text", "today", "passed"),
    [
        ("log_loss <= yesterday + 0.01", 0.41, True),
        ("log_loss <= yesterday + 0.01", 0.42, False),
        ("log_loss <= yesterday", 0.4, True),
        ("log_loss < yesterday", 0.4, False),
        ("log_loss < 0.5", 0.3, True),
    ],
)
def test_gates_of_a_log_loss(tmp_path, text, today, passed):
    (gate,) = read_job(written(tmp_path, GOOD + f"select: log_loss\ngate: {text}\n")).gates
    assert gate.judge({"log_loss": today}, {"log_loss": 0.4}).passed is passed
