"""gamma as people write it becomes one number, exactly; what cannot be one is one line; references have the same."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.svm import SVC

from pipeline.engine.engine import Engine
from pipeline.errors import DataError, SieveError, SpecError
from pipeline.path import gamma as module
from pipeline.path.fit import fit_path
from pipeline.path.gamma import Gamma, asked_gamma, asked_kernel, check_references
from pipeline.runs.directory import open_run
from pipeline.spec import GRAM_SOLVERS, PathSpec
from tests.formats import Table
from tests.tampering import change_header
from tests.trained import command, shards_of, sparse_rows, trained


@pytest.fixture(scope="module")
def inline():
    with Engine("inline") as engine:
        yield engine


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.25", Gamma(0.25)),
        (0.25, Gamma(0.25)),
        (np.float64(0.1), Gamma(0.1)),
        (3, Gamma(3.0)),
        ("1e-3", Gamma(1e-3)),
        ("0.1/d", Gamma(0.1, "d")),
        (" 10 / d ", Gamma(10.0, "d")),
        ("scale", Gamma(1.0, "scale")),
        (None, Gamma(1.0, "scale")),
    ],
)
def test_forms(text, expected):
    assert asked_gamma(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *["", "0", "-1", "-1/d", "0/d", "nan", "inf", "1e999", "1/x", "d", "/d", "auto", "1/2", "1e", "1.2.3", "1_0"],
        *[True, float("nan"), float("inf"), 0.0, -2, [1.0], b"1"],
    ],
)
def test_nonsense_is_one_line(text):
    with pytest.raises(SpecError, match=r"gamma is a positive number, or one over d such as 0.1/d, or scale") as error:
        asked_gamma(text)
    assert "\n" not in str(error.value)


def exact(x: np.ndarray) -> Fraction:
    """1/(d v) over all entries of an array, in fractions."""
    entries = [Fraction(float(value)) for value in x.ravel()]
    mean = sum(entries) / len(entries)
    return 1 / (x.shape[1] * sum((value - mean) ** 2 for value in entries) / len(entries))


def spread(folder, engine, x, bias=0.0, rows_per_shard=2):
    table = Table(x, np.array([0, 1] * (len(x) // 2) + [1] * (len(x) % 2)), np.ones(len(x)))
    return asked_gamma("scale").on(engine, shards_of(folder, table, rows_per_shard, bias=bias))


@settings(max_examples=25)
@given(
    x=arrays.arrays(np.float64, (5, 3), elements=st.sampled_from([0.0, 0.1, -3.0, 1e5 + 0.125, 1e8, 1e8 + 1, 7e-9])),
    bias=st.sampled_from([0.0, 1.0, -2.5]),
)
def test_scale_is_the_exact_variance_however_rows_are_cut(tmp_path_factory, inline, x, bias):
    """Values near 1e8 that differ by 1: float64's own mean of squares minus square of the mean has no digit right."""
    folder = tmp_path_factory.mktemp("scale")
    if np.ptp(x) == 0.0:
        with pytest.raises(DataError, match="variance of its entries is 0"):
            spread(folder, inline, x, bias)
        return
    assert spread(folder, inline, x, bias) == float(exact(x)) == spread(folder, inline, x, bias, rows_per_shard=5)


def test_scale_and_over_d_are_those_of_scikit_learn(tmp_path, inline):
    table = sparse_rows()
    for bias in (0.0, 1.0):
        data = shards_of(tmp_path, table, bias=bias)
        fitted = SVC(gamma="scale").fit(table.x, table.y)
        assert asked_gamma("scale").on(inline, data) == pytest.approx(fitted._gamma, rel=1e-14)
        assert asked_gamma("0.1/d").on(inline, data) == 0.1 / table.x.shape[1]
        assert asked_gamma("0.1").on(inline, data) == 0.1


def test_constant_entries_have_no_variance(tmp_path, inline):
    with pytest.raises(DataError, match="variance of its entries is 0"):
        spread(tmp_path, inline, np.full((40, 7), 0.1), rows_per_shard=9)


@pytest.mark.parametrize(("value", "said"), [(1e-170, "is 0 in float64"), (1e-155, "gamma scale is inf in float64")])
def test_tiny_values_are_one_line(tmp_path, inline, value, said):
    x = np.full((4, 2), value)
    x[0, 0] = 0.0
    with pytest.raises(DataError, match=said):
        spread(tmp_path, inline, x)


def test_sums_beyond_range_are_one_line(tmp_path, inline, monkeypatch):
    """A hundred million rows of the largest norm that is read."""
    monkeypatch.setattr(module, "_shard_sums", lambda shard, features: np.array([[1.0, 0.0], [np.inf, np.nan]]))
    with pytest.raises(DataError, match="squares are beyond float64's range; scale them, or give gamma as a number"):
        spread(tmp_path, inline, np.eye(4))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--gamma", "0.1"], 1, "gamma '0.1' belongs to a kernel; add kernel rbf, or leave gamma out"),
        (["--kernel", "linear", "--gamma", "scale"], 1, "gamma 'scale' belongs to a kernel"),
        (["--kernel", "rbf", "--gamma", "-1"], 1, "gamma is a positive number"),
        (["--kernel", "rbf", "--gamma", "lots"], 1, "gamma is a positive number, or one over d"),
        (["--kernel", "poly"], 2, "'poly' is not one of"),
        (["--kernel", "rbf", "--solver", "dcd"], 1, f"there are {', '.join(GRAM_SOLVERS)}"),
        (["--solver", "libsvm"], 1, "there are auto, dcd, newton, liblinear"),
        (["--solver", "smo"], 2, "'smo' is not one of"),
    ],
)
@pytest.mark.parametrize("name", ["path", "train"])
def test_wrong_kernels_are_one_line_before_the_data_are_opened(capsys, tmp_path, name, arguments, code, said):
    more = ["--c", "1"] if name == "train" else []
    found, out, err = command(capsys, name, "nowhere.svm", "--out", tmp_path / "run", *more, *arguments)
    assert (found, out) == (code, "")
    assert said in err
    assert len(err.splitlines()) == 1 if code == 1 else "Traceback" not in err
    assert not (tmp_path / "run").exists()


def test_the_same_in_python(tmp_path):
    data = shards_of(tmp_path, sparse_rows())
    for wrong in (
        {"gamma": 0.1},
        {"kernel": "rbf", "gamma": -1},
        {"kernel": "poly"},
        {"kernel": "rbf", "solver": "dcd"},
    ):
        with pytest.raises(SpecError):
            fit_path(data, **wrong)
    constant = shards_of(tmp_path, Table(np.ones((4, 2)), np.array([0, 1, 0, 1]), np.ones(4)))
    with pytest.raises(DataError, match="variance of its entries is 0"):
        fit_path(constant, kernel="rbf")


class TestReferences:
    """A reference's kernel is the run's, unless something else is said; then it is refused."""

    @pytest.fixture
    def linear(self, tmp_path):
        return trained(tmp_path).run

    @pytest.fixture
    def kernel(self, linear):
        """The same run, whose run.json says that it is a kernel's."""
        change_header(linear.path, spec=PathSpec(kernel="rbf", gamma=0.5, grid=linear.spec.grid).to_json())
        return open_run(linear.path)

    def test_what_is_not_said_is_as_in_the_reference(self, kernel):
        step = kernel.steps[0]
        assert asked_kernel(None, None, [step]).provisional == {"kernel": "rbf", "gamma": 0.5}
        assert asked_kernel("rbf", None, [step]).provisional == {"kernel": "rbf", "gamma": 0.5}
        assert asked_kernel("rbf", "2/d", [step]).gamma == Gamma(2.0, "d")
        assert asked_kernel("linear", None, [step]).provisional == {"kernel": "linear", "gamma": None}
        assert asked_kernel(None, None).provisional == {"kernel": "linear", "gamma": None}

    def test_another_kernel_is_refused(self, kernel):
        step = kernel.steps[0]
        check_references(PathSpec(kernel="rbf", gamma=0.5), [step])
        for other in (PathSpec(), PathSpec(kernel="rbf", gamma=0.25)):
            with pytest.raises(SpecError, match=r"has kernel rbf with gamma 0.5, this run kernel ") as error:
                check_references(other, [step])
            assert str(kernel.path) in str(error.value)

    def test_the_command_refuses_it(self, capsys, tmp_path, kernel):
        arguments = ["train", tmp_path / "shards", "--c", "1", "--out", tmp_path / "new", "--reference", kernel.path]
        for more in (["--kernel", "linear"], ["--gamma", "0.25"]):
            code, _, err = command(capsys, *arguments, *more)
            assert code == 1
            assert "give a reference of the same kernel and gamma" in err
            assert len(err.splitlines()) == 1
            assert not (tmp_path / "new").exists()

    def test_a_linear_one_for_a_kernel(self, linear):
        with pytest.raises(SpecError, match=r"has kernel linear, this run kernel rbf with gamma 1.0"):
            fit_path(linear.header.data.path, kernel="rbf", gamma=1, reference=linear.steps[0])


def test_a_kernels_step_has_alpha_and_verdicts_and_says_that_it_has_no_w(tmp_path):
    run = trained(tmp_path).run
    change_header(run.path, spec=PathSpec(kernel="rbf", gamma=0.5, grid=run.spec.grid).to_json())
    step = open_run(run.path).steps[1]
    assert step.alpha.size == step.verdicts.size == 60
    with pytest.raises(SieveError, match=r"models/000001.npz: a model of kernel rbf has no weights w; use its alpha"):
        _ = step.w
