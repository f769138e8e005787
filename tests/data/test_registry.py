"""The shipped registry is complete and right in shape; a faulty file is answered with one exact line."""

from __future__ import annotations

import dataclasses
import re
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.data.registry.registry import RegistryEntry, bundled, find_entry, load_registry
from pipeline.errors import RegistryError


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SVMSIEVE_DATASETS", raising=False)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_every_set_of_the_paper_is_there() -> None:
    registry = load_registry()
    papers = [entry.paper for entry in registry.values()]
    assert [number for number in papers if number.startswith("D")] == [f"D{k:02d}" for k in range(1, 13)]
    figure_6 = [name for name, entry in registry.items() if entry.paper == "figure 6"]
    assert figure_6 == ["pcmac", "magic", "ijcnn1"]
    assert all(entry.name == name for name, entry in registry.items())


@pytest.mark.parametrize(
    ("name", "rows", "features", "positive"),
    [
        ("breast_cancer", 569, 30, None),
        ("dna", 2_000, 180, "3"),
        ("digit1", 1_500, 241, None),
        ("satimage", 4_435, 36, "1"),
        ("gisette", 6_000, 5_000, None),
        ("mushrooms", 8_124, 112, None),
        ("news20", 19_996, 1_355_191, None),
        ("shuttle", 43_500, 9, "1"),
        ("acoustic", 78_823, 50, "3"),
        ("url", 2_396_130, 3_231_961, None),
        ("kdd-a", 8_407_752, 20_216_830, None),
        ("kdd-b", 19_264_097, 29_890_095, None),
        ("pcmac", 1_946, 7_511, None),
        ("magic", 19_020, 10, "g"),
        ("ijcnn1", 49_990, 22, None),
    ],
)
def test_shape_and_positive_class(name: str, rows: int, features: int, positive: str | None) -> None:
    entry = find_entry(name)
    assert (entry.rows, entry.features, entry.positive) == (rows, features, positive)


@pytest.mark.parametrize(("stand_in", "real"), [("url-like", "url"), ("kdda-like", "kdd-a"), ("kddb-like", "kdd-b")])
def test_a_stand_in_has_the_shape_of_the_real_set(stand_in: str, real: str) -> None:
    made, downloaded = find_entry(stand_in), find_entry(real)
    assert made.kind == "synthetic"
    assert (made.rows, made.features) == (downloaded.rows, downloaded.features)
    assert f"svmsieve datasets make {stand_in}" in made.note


def test_downloads_have_an_address_and_a_format() -> None:
    downloads = [entry for entry in load_registry().values() if entry.kind == "download"]
    assert [entry.name for entry in downloads if not entry.url] == ["pcmac"]
    assert all(entry.format in ("svmlight", "csv", "mat") for entry in downloads)


def test_csv_without_header_names_its_columns() -> None:
    magic = find_entry("magic")
    assert magic.features is not None
    assert len(magic.columns) == magic.features + 1
    assert magic.label_column == magic.columns[-1] == "class"


def test_an_entry_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        find_entry("dna").kind = "synthetic"  # type: ignore[misc]


def test_unknown_name_is_answered_with_close_ones() -> None:
    with pytest.raises(RegistryError, match=r"'gisete': did you mean gisette\? `svmsieve datasets list`"):
        find_entry("gisete")
    with pytest.raises(RegistryError, match=r"'zzzz': `svmsieve datasets list`"):
        find_entry("zzzz")


def test_own_file_by_environment_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = write(tmp_path / "ours.yaml", "datasets:\n  ours: {kind: download, url: 'https://x.org/a'}\n")
    theirs = write(tmp_path / "theirs.yaml", "datasets:\n  theirs: {kind: synthetic, rows: 3}\n")
    monkeypatch.setenv("SVMSIEVE_DATASETS", str(ours))
    assert list(load_registry()) == ["ours"]
    assert list(load_registry(theirs)) == list(load_registry(str(theirs))) == ["theirs"]
    assert find_entry("theirs", theirs) == RegistryEntry(name="theirs", kind="synthetic", rows=3)


def test_numbers_as_labels_become_text(tmp_path: Path) -> None:
    path = write(tmp_path / "d.yaml", "datasets:\n  a: {kind: download, positive: 3}\n")
    assert find_entry("a", path).positive == "3"


def test_the_name_of_a_set_is_what_stands_there(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    write(path, "datasets:\n  no: {kind: download}\n  7:\n    kind: synthetic\n    note: |\n      two\n      lines\n")
    assert list(load_registry(path)) == ["no", "7"]
    assert find_entry("7", path).note == "two\nlines\n"


def test_what_entries_have_in_common_is_written_once(tmp_path: Path) -> None:
    common = "common: &common {kind: download, rows: 3, title: t}\n"
    text = common + "datasets:\n  a: {<<: *common}\n  b: {<<: [{rows: 4}, *common], title: u}\n"
    a, b = load_registry(write(tmp_path / "d.yaml", text)).values()
    assert (a.kind, a.rows, a.title) == ("download", 3, "t")
    assert (b.kind, b.rows, b.title) == ("download", 4, "u")
    for wrong, said in (
        ("{<<: *common, row: 1}", "line 3: entry a, unknown name 'row'"),
        ("{<<: {x: 1}}", "line 3: entry a, unknown name 'x'"),
        ("{<<: 3}", "line 3: entry a, << takes a mapping, or a list of them"),
        ("&a {<<: *a}", "line 3: entry a, kind: is missing"),
    ):
        path = write(tmp_path / "d.yaml", f"{common}datasets:\n  a: {wrong}\n")
        with pytest.raises(RegistryError, match=re.escape(said)):
            load_registry(path)


@pytest.mark.attack
def test_a_file_of_laughs_is_read_in_no_time(tmp_path: Path) -> None:
    """Mappings that take over others, which take over others: each has what a hundred thousand paths lead to."""
    levels = ["l0: &l0 {kind: download}"] + [
        f"l{k}: &l{k} {{<<: [{', '.join([f'*l{k - 1}'] * 9)}]}}" for k in range(1, 30)
    ]
    path = write(tmp_path / "d.yaml", "\n".join(levels) + "\ndatasets:\n  a: *l29\n")
    begin = time.process_time()
    assert find_entry("a", path).kind == "download"
    assert time.process_time() - begin < 2.0


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{rows: 3}", "kind: is missing; write one of bundled, download, synthetic"),
        ("{kind: magic}", "kind: 'magic' is not one of bundled, download, synthetic"),
        ("{kind: download, rows: many}", "rows: 'many' is not a whole number from 1 on"),
        ("{kind: download, rows: true}", "rows: True is not a whole number from 1 on"),
        ("{kind: download, features: 0}", "features: 0 is not a whole number from 1 on"),
        ("{kind: download, row: 3}", "unknown name 'row'; did you mean rows?"),
        ("{kind: download, 7: 3}", "unknown name '7'; known here: kind, title,"),
        ("{kind: download, url: 'ftp://x.org/a'}", "url: 'ftp://x.org/a' is not an address of http,"),
        ("{kind: download, url: 'http://[x/a'}", "is not an address of http, https, file"),
        ("{kind: download, sha256: abc}", "sha256: 'abc' is not 64 hexadecimal digits"),
        ("{kind: download, columns: a}", "columns: 'a' is not a list of column names"),
        ("{kind: download, columns: [a, b]}", "label_column: must be one of columns"),
        ("{kind: download, positive: [1]}", "positive: [1] is not text"),
        ("{kind: bundled, transform: log}", "transform: 'log' is not one of standardise"),
        ("{kind: download, title: 3}", "title: 3 is not text"),
        ("download", "bad must be a mapping of names to values"),
    ],
)
def test_a_faulty_entry_is_named_in_one_line(tmp_path: Path, entry: str, message: str) -> None:
    path = write(tmp_path / "own.yaml", f"datasets:\n  good: {{kind: synthetic}}\n  bad: {entry}\n")
    with pytest.raises(RegistryError) as caught:
        load_registry(path)
    assert str(caught.value).startswith(f"{path}, line 3: entry bad, ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("datasets:\n  a: {kind: download\n  b: 3\n", ", line 3: not valid YAML ("),
        ("datasets:\n\ta: 3\n", ", line 2: not valid YAML ("),
        ("datasets: \x01\n", ": not valid YAML ("),
        ("", ": the file is empty; write a mapping `datasets:` of names to entries"),
        ("datasets: [a, b]\n", ", line 1: datasets must be a mapping of names to values"),
        ("data: 3\n", ", line 1: datasets: is missing; write a mapping `datasets:`"),
        ("datasets:\n  a: {kind: download}\n  a: {kind: download}\n", ", line 3: a stands here twice"),
        ("datasets:\n  a/b: {kind: download}\n", ", line 2: 'a/b': the name of a data set has letters"),
    ],
)
def test_a_faulty_file_is_named_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "own.yaml", text)
    with pytest.raises(RegistryError) as caught:
        load_registry(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVMSIEVE_DATASETS", str(tmp_path / "none.yaml"))
    with pytest.raises(
        RegistryError, match=r"none\.yaml: cannot be read \(No such file.*; check the path or SVMSIEVE_DATASETS"
    ):
        load_registry()


def test_bundled_breast_cancer_is_standardised_and_offline() -> None:
    x, y = bundled(find_entry("breast_cancer"))
    assert x.shape == (569, 30)
    assert x.dtype == np.float64
    assert (y == 1).sum() == 357
    np.testing.assert_allclose(x.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(x.std(axis=0), 1.0, atol=1e-12)


def test_a_constant_column_is_standardised_to_zero() -> None:
    raw, _ = bundled(RegistryEntry(name="digits", kind="bundled"))
    x, _ = bundled(RegistryEntry(name="digits", kind="bundled", transform="standardise"))
    constant = raw.std(axis=0) == 0
    assert constant.any()
    assert (x[:, constant] == 0).all()
    assert np.isfinite(x).all()


def test_only_bundled_sets_are_loaded() -> None:
    with pytest.raises(RegistryError, match=r"'dna' \(kind download\) is not in scikit-learn"):
        bundled(find_entry("dna"))
