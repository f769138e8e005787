"""Files of several formats in one data set: each counts its indices its own way, and none is shifted for another."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, Input, ingest
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import ReadRules
from pipeline.errors import DataError
from tests.formats import contents

pytestmark = pytest.mark.usefixtures("tables_as_they_are")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "a.csv").write_text("label,a,b\n0,1,2\n1,3,4\n")
    (tmp_path / "from_one.svm").write_text("1 1:5\n0 2:6\n")
    (tmp_path / "from_zero.svm").write_text("1 0:5\n0 1:6\n")
    return tmp_path


def rows(folder):
    return contents(open_shards(folder / "out")).x.tolist()


def test_text_that_counts_from_one_joins_a_table(files):
    ingest([str(files / "a.csv"), str(files / "from_one.svm")], files / "out", IngestSpec())
    assert rows(files) == [[1, 2], [3, 4], [5, 0], [0, 6]]


def test_text_that_counts_from_zero_must_say_so_next_to_a_table(files):
    inputs = [str(files / "a.csv"), str(files / "from_zero.svm")]
    with pytest.raises(DataError, match="pass --index-base 0"):
        ingest(inputs, files / "out", IngestSpec())
    ingest(inputs, files / "out", IngestSpec(ReadOptions(rules=ReadRules(base=0))))
    assert rows(files) == [[1, 2], [3, 4], [5, 0], [0, 6]]


@pytest.mark.parametrize("first", ["a.csv", "from_one.svm"])
def test_appending_another_format(files, first):
    second = {"a.csv": "from_one.svm", "from_one.svm": "a.csv"}[first]
    ingest([str(files / first)], files / "out", IngestSpec())
    ingest([str(files / second)], files / "out", IngestSpec(append=True))
    assert sorted(rows(files)) == [[0, 6], [1, 2], [3, 4], [5, 0]]


def test_appended_text_counts_as_the_data_set_does(files):
    ingest([str(files / "from_zero.svm")], files / "out", IngestSpec())
    (files / "more.svm").write_text("1 1:7\n0 1:8\n")
    ingest([str(files / "more.svm")], files / "out", IngestSpec(append=True))
    assert rows(files) == [[5, 0], [0, 6], [0, 7], [0, 8]]


def test_how_one_input_is_read_does_not_spill_over(files):
    (files / "plain.data").write_text("1,9,0\n2,8,1\n")
    table = Input(str(files / "plain.data"), {"format": "csv", "columns": ("a", "b", "label")})
    ingest([table, str(files / "a.csv")], files / "out", IngestSpec())
    assert rows(files) == [[1, 9], [2, 8], [1, 2], [3, 4]]


@pytest.mark.parametrize("bias", [1e160, -1e300])
def test_a_bias_that_would_overflow_norms_is_refused(files, bias):
    with pytest.raises(DataError, match="too large"):
        ingest([str(files / "a.csv")], files / "out", IngestSpec(bias=bias))


def test_bias_without_known_features_is_the_last_column(files):
    (files / "late.svm").write_text("1 1:5\n0 2:6\n0 7:1\n")
    manifest = ingest([str(files / "late.svm")], files / "out", IngestSpec(bias=0.5, rows_per_shard=1))
    assert manifest.features == 8
    np.testing.assert_array_equal(np.array(rows(files))[:, 7], 0.5)
