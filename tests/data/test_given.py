"""Reading options on a shard directory: what the shards have passes, anything else is refused by every command."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.inputs import open_dataset
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import ReadRules
from pipeline.errors import DataError
from pipeline.path.fit import fit_path
from tests.formats import Table, write_csv, write_npz, write_parquet_columns, write_svmlight
from tests.trained import command, sparse_rows

pytestmark = [pytest.mark.attack, pytest.mark.usefixtures("tables_as_they_are")]
TABLE = sparse_rows()
REFUSED = {
    "--bias 1": "is a shard directory with bias 0; --bias applies when files are read: leave it out, or ingest",
    "--positive 0": "is a shard directory with the positive class 1; --positive applies when",
    "--features 7": "is a shard directory with 12 features; --features applies when",
    "--index-base 0": "is a shard directory whose indices counted from 1; --index-base applies when",
    "--label-column nosuch": "is a shard directory; --label-column applies when files are read: leave it out",
    "--weight-column cost": "is a shard directory; --weight-column applies when",
    "--format csv": "is a shard directory; --format applies when",
    "--duplicates sum": "is a shard directory; --duplicates applies when",
    "--ignore f1": "is a shard directory; --ignore applies when",
    "--max-line 1MB": "is a shard directory; --max-line applies when",
}
COMMANDS = {
    "path": "path {shards} --out {new} --grid 1",
    "train": "train {shards} --out {new} --c 1",
    "screen": "screen {shards} --reference {run} --c 1 --out {new}.csv",
    "verify": "verify {run} {shards}",
    "predict": "predict {run} {shards} --out {new}.csv",
    "describe": "datasets describe {shards}",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("given")
    ingest([str(write_svmlight(folder / "rows.svm", TABLE))], folder / "shards", IngestSpec())
    ingest([str(write_svmlight(folder / "rows.svm", TABLE))], folder / "biased", IngestSpec(bias=1.0))
    fit_path(folder / "shards", out=folder / "run", grid=(1.0,), scheduler="inline")
    return folder


@pytest.fixture
def words(home, tmp_path):
    def fill(text: str) -> list[str]:
        places = {"shards": home / "shards", "run": home / "run", "new": tmp_path / "new", "biased": home / "biased"}
        return text.format(**places).split()

    return fill


@pytest.mark.parametrize("option", REFUSED)
def test_what_cannot_apply_is_refused(capsys, words, tmp_path, option):
    code, out, err = command(capsys, *words(COMMANDS["describe"]), *option.split())
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert REFUSED[option] in err


@pytest.mark.parametrize("name", COMMANDS)
def test_by_every_command(capsys, words, tmp_path, name):
    code, _, err = command(capsys, *words(COMMANDS[name]), "--label-column", "nosuch")
    assert (code, err.count("\n")) == (1, 1)
    assert REFUSED["--label-column nosuch"] in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "option", ["--bias 0", "--positive 1", "--positive +1", "--features 12", "--index-base 1", "--index-base auto"]
)
def test_what_the_shards_have_passes(capsys, words, option):
    assert command(capsys, *words(COMMANDS["describe"]), *option.split())[0] == 0


def test_a_default_that_is_given_is_given(capsys, words):
    code, _, err = command(capsys, *words("datasets describe {biased}"), "--bias", 0)
    assert code == 1
    assert "is a shard directory with bias 1; --bias applies" in err
    assert command(capsys, *words("datasets describe {biased}"), "--bias", 1)[0] == 0
    assert command(capsys, *words("datasets describe {biased}"))[0] == 0


def test_from_python(home):
    with pytest.raises(DataError, match="with bias 0; --bias applies"):
        open_dataset(home / "shards", IngestSpec(bias=1.0))
    with pytest.raises(DataError, match="with 12 features; --features applies"):
        open_dataset(home / "shards", IngestSpec(ReadOptions(rules=ReadRules(features=7))))
    assert open_dataset(home / "biased", IngestSpec(bias=1.0)).bias == 1.0
    assert open_dataset(home / "biased").bias == 1.0


def test_options_for_the_files_beside_shards(capsys, words, tmp_path):
    """Shards to train on, and a CSV file to judge by: what is said of columns is said of the file."""
    path = write_svmlight(tmp_path / "rows.svm", TABLE)
    line = [*words(COMMANDS["path"]), "--validation", path, "--duplicates", "sum", "-q"]
    assert command(capsys, *line)[0] == 0
    code, _, err = command(capsys, *line, "--features", 7)
    assert code == 1
    assert REFUSED["--features 7"] in err


def test_verify_reads_the_files_beside_shards_as_path_did(capsys, home, tmp_path):
    """The label's column is the file's, and what indices count from is what it is in the shards."""
    zero = write_svmlight(tmp_path / "zero.svm", TABLE, base=0)
    later = Table(np.where(np.arange(12) == 0, 0, TABLE.x), TABLE.y, TABLE.costs)  # no index 0 that would tell
    judge = write_svmlight(tmp_path / "judge.svm", later, base=0)
    ingest([str(zero)], tmp_path / "zero", IngestSpec())
    words = ["--validation", judge, "--duplicates", "sum", "-q"]
    assert command(capsys, "path", tmp_path / "zero", "--out", tmp_path / "run", "--grid", 1, *words)[0] == 0
    code, out, err = command(capsys, "verify", tmp_path / "run", tmp_path / "zero", *words)
    assert (code, err) == (0, "")
    assert "1 certificate holds" in out


def test_a_directory_of_parquet_is_not_read_as_something_else(capsys, tmp_path):
    (tmp_path / "table").mkdir()
    write_parquet_columns(tmp_path / "table" / "a.parquet", TABLE)
    write_csv(tmp_path / "table" / "a.csv", TABLE)
    code, _, err = command(capsys, "datasets", "describe", tmp_path / "table", "--format", "csv")
    assert code == 1
    assert "a directory is read as Parquet, not as csv; name its files, or DIR/*.csv" in err
    assert command(capsys, "datasets", "describe", tmp_path / "table", "--format", "parquet", "-q")[0] == 0


@pytest.mark.parametrize("option", ["--label-column clicked", "--weight-column cost", "--ignore f1"])
@pytest.mark.parametrize("write", [write_svmlight, write_npz])
def test_columns_are_not_asked_of_files_that_have_none(capsys, tmp_path, write, option):
    """Costs that were asked for and never read would be another model."""
    path = write(tmp_path / ("rows.npz" if write is write_npz else "rows.svm"), TABLE)
    words = [path, "--out", tmp_path / "out", "-q"]
    for verb in (["ingest", *words], ["path", *words, "--grid", 1]):
        code, out, err = command(capsys, *verb, *option.split())
        assert (code, out) == (1, "")
        assert f"files have no columns with names; leave {option.split()[0]} out" in err
    assert not (tmp_path / "out" / "manifest.json").exists()
    beside = write_csv(tmp_path / "more.csv", TABLE)
    assert command(capsys, "ingest", beside, *words, "--ignore", "weight")[0] == 0


def test_a_column_to_be_ignored_must_be_there(capsys, tmp_path):
    """A name with a slip of the pen would leave the column that was meant among the features."""
    path = write_csv(tmp_path / "rows.csv", TABLE)
    table = write_parquet_columns(tmp_path / "rows.parquet", TABLE)
    for verb, source, more in (("ingest", path, []), ("ingest", table, []), ("path", path, ["--grid", 1])):
        words = [verb, source, "--out", tmp_path / "out", "-q", *more]
        code, out, err = command(capsys, *words, "--ignore", "weight", "--ignore", "nosuch")
        assert (code, out) == (1, "")
        assert f"{source}: no column 'nosuch'; correct --ignore nosuch or leave it out" in err
    assert "no column 'nosuch'" in command(capsys, "datasets", "describe", table, "--ignore", "nosuch")[2]
    assert not (tmp_path / "out").exists()
    words = ["ingest", "-q", "--out", tmp_path / "out", "--ignore", "more"]
    wide = tmp_path / "wide.csv"
    lines = path.read_text().splitlines()
    wide.write_text("".join(f"{line},{'more' if k == 0 else 'x'}\n" for k, line in enumerate(lines)))
    assert command(capsys, *words, path, wide)[0] == 0  # one of the files has it
    assert command(capsys, *words, "--append", path)[0] == 0


def test_a_bias_of_0_differs_from_that_of_the_data_set(capsys, tmp_path):
    path = write_svmlight(tmp_path / "rows.svm", TABLE)
    words = ["ingest", "-q", path, "--out", tmp_path / "out"]
    assert command(capsys, *words, "--bias", 1)[0] == 0
    code, out, err = command(capsys, *words, "--append", "--bias", 0)
    assert (code, out) == (1, "")
    assert "--bias 0 differs from the data set's 1; leave it out when appending" in err
    assert command(capsys, *words, "--append", "--bias", 1)[0] == 0
    assert command(capsys, *words, "--append")[0] == 0
    assert command(capsys, *words, "--overwrite", "--bias", 0)[0] == 0
    assert command(capsys, *words, "--append", "--bias", 0)[0] == 0
