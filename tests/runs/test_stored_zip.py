"""Small models are made at once, to the byte what ``zipfile`` and NumPy write."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from numpy.lib import format as npy

from pipeline.runs import model_file
from pipeline.runs.model_file import KINDS, SCALARS, StoredModel, write_model
from pipeline.runs.stored_zip import stored_zip


@pytest.mark.parametrize("entries", [[], [("a.npy", b"")], [("a.npy", b"abc"), ("longer-name.npy", bytes(70_000))]])
def test_it_is_what_zipfile_writes(entries):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, content in entries:
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as entry:
                entry.write(content)
    assert stored_zip(entries) == made.getvalue()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("count", [0, 1, 9, 10, 123_456_789, 10**15])
def test_an_array_begins_as_numpy_begins_it(name, count):
    made = io.BytesIO()
    shape = () if name in SCALARS else (count,)
    about = {"descr": np.dtype(KINDS[name]).str, "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(made, about)
    assert model_file._start(name, count) == made.getvalue()


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (569, 30), (200_000, 7)])
def test_small_and_large_models_are_written_alike(tmp_path, monkeypatch, n, d, apart):
    rng = np.random.default_rng(n)
    w, alpha = rng.normal(size=d) * (rng.random(d) < 0.7), rng.random(n) * (rng.random(n) < 0.3)
    arrays = (w, alpha, rng.integers(0, 3, n).astype(np.int8), w + 1.0 if apart else None)
    first = write_model(tmp_path / "small.npz", 0.5, *arrays)
    monkeypatch.setattr(model_file, "SMALL", -1)
    assert write_model(tmp_path / "large.npz", 0.5, *arrays) == first
    assert (tmp_path / "small.npz").read_bytes() == (tmp_path / "large.npz").read_bytes()
    stored = StoredModel(tmp_path / "small.npz")
    np.testing.assert_array_equal(stored.w(), w)
    np.testing.assert_array_equal(stored.alpha(), alpha)
    np.testing.assert_array_equal(stored.verdicts(), arrays[2])
