"""The credentials of a cluster: keys that nobody else can read, made once, never over others, each for its role."""

from __future__ import annotations

import datetime
import shutil
import subprocess

import pytest
from cryptography import x509

from pipeline.engine import signing, tls
from pipeline.engine.tls import FILES, ROLES, check_credentials, make_credentials, security_of_all
from pipeline.errors import EngineError
from tests.trained import command

openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not here")


def made(capsys, folder, *words):
    return command(capsys, "cluster", "certificates", folder, *words)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def accepted(folder, name, purpose):
    """Whether OpenSSL takes a certificate for this purpose, as strictly as Python does from 3.13 on."""
    words = ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", folder / "ca.pem", folder / name]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def test_made_for_the_owner_only_and_never_over_others(tmp_path, capsys):
    folder = tmp_path / "new" / "certs"
    code, out, err = made(capsys, folder, "--days", "30")
    until = datetime.datetime.now(tz=datetime.UTC) + datetime.timedelta(days=30)
    assert (code, err) == (0, "") and out.startswith(f"{folder}: ca.pem, ") and out.endswith(f"{until:%Y-%m-%d}\n")
    before = contents(folder)
    assert set(before) == set(FILES)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {(folder / f"{role}-key.pem").stat().st_mode & 0o777 for role in ROLES} == {0o600}
    assert len({before[f"{role}-key.pem"] for role in ROLES}) == 3
    assert not any(b"PRIVATE" in content for name, content in before.items() if not name.endswith("-key.pem"))
    code, out, err = made(capsys, folder)
    assert (code, out) == (1, "")
    assert err.startswith(f"svmsieve: {folder}: ca.pem is there already and is not written over; remove ca.pem ")
    assert made(capsys, folder, "--keep")[0] == 0
    assert contents(folder) == before


@openssl
def test_each_is_for_its_role_and_its_cluster(tmp_path):
    make_credentials(tmp_path / "one")
    make_credentials(tmp_path / "other")
    for role in ROLES:
        assert accepted(tmp_path / "one", f"{role}.pem", "sslclient")
        assert accepted(tmp_path / "one", f"{role}.pem", "sslserver") is (role != "client")
        shutil.copy(tmp_path / "other" / f"{role}.pem", tmp_path / "one" / "foreign.pem")
        assert not accepted(tmp_path / "one", "foreign.pem", "sslclient")


def test_hosts_are_named(tmp_path, capsys):
    assert made(capsys, tmp_path / "a", "--host", "node-1.example.org", "--host", "10.0.0.7")[0] == 0
    cert = x509.load_pem_x509_certificate((tmp_path / "a" / "worker.pem").read_bytes())
    names = [str(name.value) for name in signing.named_in(cert)]
    assert names == ["localhost", "127.0.0.1", "::1", "node-1.example.org", "10.0.0.7"]
    assert made(capsys, tmp_path / "a", "--keep", "--host", "10.0.0.7")[0] == 0
    code, _, err = made(capsys, tmp_path / "a", "--keep", "--host", "node-2")
    assert code == 1 and "scheduler.pem is not for node-2; remove ca.pem" in err


@pytest.mark.parametrize("host", ["", "a b", "-a", "a..b", "bücher.example", "http://a", "a:80", "x" * 300])
def test_what_is_no_host_is_one_line_and_makes_nothing(tmp_path, capsys, host):
    code, _, err = made(capsys, tmp_path / "a", f"--host={host}")
    assert code == 1 and len(err.splitlines()) == 1 and "is neither the name of a host nor an IP address" in err
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("damage", ["missing", "foreign", "another key", "torn", "expired"])
def test_what_does_not_fit_together_is_refused_and_left_alone(tmp_path, capsys, monkeypatch, damage):
    folder, other = tmp_path / "certs", tmp_path / "other"
    make_credentials(other)
    if damage == "expired":
        monkeypatch.setattr(signing, "_CLOCKS_DIFFER", datetime.timedelta(days=3))
        make_credentials(folder, days=-1)
    else:
        make_credentials(folder)
    if damage == "missing":
        (folder / "worker-key.pem").unlink()
    elif damage == "foreign":
        shutil.copy(other / "worker.pem", folder)
        shutil.copy(other / "worker-key.pem", folder)
    elif damage == "another key":
        shutil.copy(folder / "client-key.pem", folder / "worker-key.pem")
    elif damage == "torn":
        (folder / "worker.pem").write_bytes((folder / "worker.pem").read_bytes()[:200])
    before = contents(folder)
    said = {"missing": "there is no worker-key.pem", "expired": "the certificates have expired on "}
    code, _, err = made(capsys, folder, "--keep")
    assert (code, len(err.splitlines())) == (1, 1)
    assert said.get(damage, "worker.pem, worker-key.pem and ca.pem do not belong together") in err
    assert str(folder) in err and "remove ca.pem" in err
    assert contents(folder) == before


def test_a_link_that_lies_in_wait_is_not_followed(tmp_path):
    folder = tmp_path / "certs"
    folder.mkdir()
    (folder / "client-key.pem").symlink_to(tmp_path / "public")
    with pytest.raises(EngineError, match=r"client-key\.pem is there already"):
        make_credentials(folder)
    assert not (tmp_path / "public").exists()


def test_what_cannot_be_written_whole_is_not_there(tmp_path, monkeypatch):
    real = tls.open_new

    def full(path, mode):
        if path.name == "client.pem":
            raise OSError(28, "No space left on device")
        return real(path, mode)

    monkeypatch.setattr(tls, "open_new", full)
    with pytest.raises(EngineError, match=r"cannot be written \(No space left on device\); name another folder"):
        make_credentials(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_needed_and_days_that_make_sense(tmp_path, capsys):
    assert command(capsys, "cluster", "certificates")[0] == 2
    assert made(capsys, "s3://bucket/certs")[0] == 2
    assert made(capsys, tmp_path / "a", "--days", "0")[0] == 2
    with pytest.raises(EngineError, match=r"has no credentials; make them with: svmsieve cluster certificates "):
        check_credentials(tmp_path / "a")


def test_who_starts_a_whole_cluster_has_all_roles(tmp_path):
    make_credentials(tmp_path)
    security = security_of_all(tmp_path)
    for role in ROLES:
        files = security.get_tls_config_for_role(role)
        assert (files["cert"], files["key"]) == (str(tmp_path / f"{role}.pem"), str(tmp_path / f"{role}-key.pem"))
    assert security.require_encryption
