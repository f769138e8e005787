"""Stand-ins: the promised shapes, the same rows for the same seed whatever makes them, something to learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from pipeline.data.dataset import open_shards
from pipeline.data.registry.synthetic import RECIPES, design, make, make_rows
from pipeline.errors import RegistryError
from tests.formats import contents

SHAPES = {
    "url-like": (2_396_130, 3_231_961, 116, 1 / 3),
    "kdda-like": (8_407_752, 20_216_830, 36, 6 / 7),
    "kddb-like": (19_264_097, 29_890_095, 29, 6 / 7),
}


@pytest.mark.parametrize("name", SHAPES)
def test_full_scale_has_the_real_shape(name):
    rows, features, nonzeros, positive = SHAPES[name]
    plan = design(name)
    assert (plan.rows, plan.features) == (rows, features)
    sample = make_rows(plan, rows - 20_000, 20_000)
    assert sample.nnz / sample.n_rows == pytest.approx(nonzeros, abs=1)
    assert np.mean(sample.labels == 1) == pytest.approx(positive, abs=0.04)
    assert sample.indices.max() < features
    np.testing.assert_allclose(sample.norms, 1, atol=1e-6)
    assert np.all(np.diff(sample.indices)[np.diff(np.repeat(np.arange(20_000), np.diff(sample.indptr))) == 0] > 0)


def test_fields_differ_and_are_zipf_distributed():
    plan = design("kddb-like", 0.01)
    sizes = plan.fields[:, 1]
    assert sizes.min() <= 4
    assert sizes.max() > 0.2 * plan.features
    sample = make_rows(plan, 0, 50_000)
    start, size = int(plan.fields[-1, 0]), int(plan.fields[-1, 1])
    last = sample.indices[(sample.indices >= start) & (sample.indices < start + size)] - start
    counts = np.sort(np.bincount(last, minlength=size))[::-1]
    ranks = np.array([1, 10, 100, 1000])
    slope = np.polyfit(np.log(ranks), np.log(counts[ranks - 1]), 1)[0]
    assert -1.6 < slope < -0.6


def test_url_like_has_real_valued_columns():
    sample = make_rows(design("url-like", 0.01), 0, 5_000)
    dense = sample.values[sample.indices < 64]
    assert np.unique(dense).size > 0.9 * dense.size


@pytest.mark.parametrize("name", RECIPES)
def test_rows_do_not_depend_on_workers_or_shards(tmp_path, name):
    made = [
        make(name, tmp_path / f"{workers}", 0.0005, seed=3, workers=workers, shard_bytes=size)
        for workers, size in ((1, 1 << 26), (2, 1 << 15), (5, 1 << 17))
    ]
    assert len({m.fingerprint for m in made}) == 1
    assert [len(m.shards) > 1 for m in made] == [False, True, True]
    assert make(name, tmp_path / "other", 0.0005, seed=4).fingerprint != made[0].fingerprint


@pytest.mark.parametrize("name", RECIPES)
def test_there_is_something_to_learn(tmp_path, name):
    make(name, tmp_path / "rows", 0.002)
    found = contents_sparse(open_shards(tmp_path / "rows"))
    x, y = found
    half = len(y) // 2
    model = LinearSVC(C=1.0, loss="hinge", max_iter=20_000).fit(x[:half], y[:half])
    majority = max(np.mean(y == 1), np.mean(y == -1))
    assert model.score(x[half:], y[half:]) > majority + 0.1 * (1 - majority)
    f = y[:half] * model.decision_function(x[:half])
    assert np.mean(np.abs(f - 1) > 0.02) > 0.5


def contents_sparse(data):
    rows = [shard.load() for shard in data.shards]
    (only,) = rows
    return only.csr(), only.labels


def test_small_rows_match_their_norms(tmp_path):
    make("url-like", tmp_path / "rows", 0.0001)
    found = contents(open_shards(tmp_path / "rows"))
    np.testing.assert_allclose(np.linalg.norm(found.x, axis=1), found.norms, rtol=1e-12)


@pytest.mark.parametrize(("name", "scale", "message"), [("nope", 1.0, "url-like"), ("url-like", 0.0, "(0, 1]")])
def test_wrong_requests(name, scale, message):
    with pytest.raises(RegistryError, match=message.replace("(", r"\(").replace("]", r"\]")):
        design(name, scale)
