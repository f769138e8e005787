"""certificates.sh: credentials that nobody else can read, made once, never half."""

from __future__ import annotations

import subprocess

import pytest

from tests.deploy.world import DEPLOY

NAMES = ("ca.pem", "cert.pem", "key.pem")


def make(*arguments):
    command = ["sh", DEPLOY / "certificates.sh", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_made_once_for_the_owner_only(tmp_path):
    folder = tmp_path / "certs"
    assert make(folder, 30).returncode == 0
    made = contents(folder)
    assert set(made) == set(NAMES)
    assert {(folder / name).stat().st_mode & 0o777 for name in NAMES} == {0o600}
    assert make(folder).returncode == 0
    assert contents(folder) == made
    other = tmp_path / "other"
    assert make(other).returncode == 0
    crossed = ["openssl", "verify", "-CAfile", other / "ca.pem", folder / "cert.pem"]
    assert subprocess.run(crossed, capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize("damage", ["missing", "foreign"])
def test_what_does_not_fit_together_is_refused_and_left_alone(tmp_path, damage):
    folder = tmp_path / "certs"
    assert make(folder).returncode == 0
    if damage == "missing":
        (folder / "key.pem").unlink()
    else:
        make(tmp_path / "other")
        (folder / "cert.pem").write_bytes((tmp_path / "other" / "cert.pem").read_bytes())
    before = contents(folder)
    result = make(folder)
    assert result.returncode == 1
    assert "certificates.sh" in result.stderr and str(folder) in result.stderr
    assert contents(folder) == before


def test_a_folder_is_needed():
    assert make().returncode == 2
