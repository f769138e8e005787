"""Files and folders that must be whole, or gone."""

from __future__ import annotations

import shutil

import pytest

from pipeline.files import remove_folder


def test_ctrl_c_while_a_folder_is_removed_waits_until_it_is_gone(tmp_path, monkeypatch):
    folder, calls, remove = tmp_path / "scratch", [], shutil.rmtree
    folder.mkdir()
    (folder / "1.bin").write_bytes(b"x")

    def interrupted(path, ignore_errors):
        calls.append(path)
        if len(calls) == 1:
            raise KeyboardInterrupt
        remove(path, ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        remove_folder(folder)
    assert not folder.exists()
    remove_folder(folder)
    assert calls == [folder] * 3
