"""Versions of packages are those that their metadata say, however they are looked up."""

from __future__ import annotations

import importlib
import sys
from importlib import metadata
from pathlib import Path

import pytest

from pipeline.installed import version


@pytest.mark.parametrize("name", ["svmsieve", "numpy", "scipy", "numba", "liblinear-official", "dask", "pyarrow"])
def test_as_the_metadata_say(name: str) -> None:
    assert version(name) == metadata.version(name)


def test_of_the_package_itself_when_it_is_loaded() -> None:
    version.cache_clear()
    svmsieve = importlib.import_module("svmsieve")  # whose __version__ asks us
    assert version("svmsieve") == svmsieve.__version__ == metadata.version("svmsieve")


def packaged(folder: Path, name: str, number: str) -> None:
    """Leave in a folder what an installation leaves of a package."""
    (folder / f"{name}-{number}.dist-info").mkdir()
    (folder / f"{name}-{number}.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: {number}\n")


def test_of_a_package_that_was_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged(tmp_path, "not_loaded", "1.2.dev3+local")
    packaged(tmp_path, "not_loaded_either", "4.5")
    monkeypatch.setattr(sys, "path", ["not/a/folder", str(tmp_path)])
    assert version("not-loaded") == "1.2.dev3+local"


def test_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(metadata.PackageNotFoundError):
        version("nothing-of-this-name")
