"""Manifests are input: whatever one says, it is one line, and nothing but its own shards is read or copied."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
from pathlib import Path

import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.shards.digest import fingerprint
from pipeline.data.shards.manifest import MANIFEST, parse_manifest
from pipeline.data.stores.transfer import copy_shards
from pipeline.errors import DatasetError, SieveError
from tests.data.hostile import edit
from tests.trained import command, shards_of, sparse_rows

pytestmark = pytest.mark.attack

SECRET = b"a 0600 file's content"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Four shards with a bias, twelve features and it."""
    return Path(shards_of(tmp_path_factory.mktemp("made"), sparse_rows(), bias=1.0).path)


@pytest.fixture
def out(made, tmp_path) -> Path:
    return shutil.copytree(made, tmp_path / "out")


def shard(**values):
    return lambda item: item["shards"][1].update(values)


def head(**values):
    return lambda item: item.update(values)


NAMES = ["../secret", "/dev/zero", "/etc/passwd", "", ".", "..", "shard-00001.arrow/", "a/shard-00001.arrow"]
NAMES += ["shard-00001.arrow\0", "shard-00001.arrow\n", "shard-.arrow", "shard--1.arrow", "shard-٣.arrow", "x" * 5000]
NAMES += ["shard-9999999999999999999.arrow", "shard-00001.arrow.tmp", MANIFEST, "../out/shard-00001.arrow"]
NOT_TEXT = [None, 0, 1.5, True, [], {}, ["shard-00001.arrow"]]
NOT_COUNTS = [None, True, -1, 0, 1.0, "17", 2**31, 10**400, math.nan, math.inf, [], {}]

EDITS = [
    *(shard(name=name) for name in NAMES + NOT_TEXT),
    *(shard(rows=rows) for rows in NOT_COUNTS),
    *(shard(nnz=nnz) for nnz in NOT_COUNTS if nnz != 0),
    *(shard(bytes=size) for size in (*NOT_COUNTS[:-6], 17, 2**63)),
    *(shard(positives=count) for count in (None, True, -1, 18, 1.0, "1")),
    *(shard(values=kind) for kind in ("float16", "object", None, 4, ["float32"])),
    *(shard(sha256=text) for text in ("", "../x", None, 0, "g" * 64, "A" * 64, "a" * 65)),
    *(shard(digest=text) for text in ("0", None, 0, "-" * 32, "0x" * 16, "_" * 32)),
    *(shard(modified=time) for time in (None, "0", 1.5, True, 10**30)),
    shard(more=1),
    lambda item: item["shards"][1].pop("nnz"),
    *(head(shards=value) for value in ([], {}, None, "shards", [None], [[]], 4)),
    *(head(features=value) for value in (0, 1, -5, 2**31, 10**30, True, None, "13", 13.0, math.nan)),
    *(head(bias=value) for value in (math.nan, math.inf, 1e200, True, "1", None, [])),
    *(head(index_base=value) for value in (2, -1, True, "1", 1.0, [])),
    *(head(columns=value) for value in ("columns", [1], [None], {}, ["c"] * 14, ["c"] * 12, ["\ud800"], 3)),
    *(head(sources=value) for value in (None, {}, [1], [{}], [{"name": "a", "bytes": -1, "rows": 1}])),
    *(head(sources=[{"name": name, "bytes": 1, "rows": 1}]) for name in (None, 1, ["a"])),
    *(head(created_by=value) for value in (None, 1, ["svmsieve"])),
    *(head(next_number=value) for value in (None, -1, 1.0, True, 2**61, "4")),
    *(head(label_map=value) for value in (None, [], {}, {"-1": "0", "+1": ["1"], "one_against_rest": False})),
    head(label_map={"-1": ["0"], "+1": ["0"], "one_against_rest": False}),
    head(label_map={"-1": [0], "+1": ["1"], "one_against_rest": False}),
    head(label_map={"-1": ["0"], "+1": ["1"], "one_against_rest": 0}),
    *(head(label_map={"-1": ["0"], "+1": side, "one_against_rest": True}) for side in ([], ["\ud800"])),
    head(label_map={"-1": [], "+1": ["1"], "one_against_rest": False}),
    *(head(version=value) for value in (None, True, 1.0, "1", 2, [1])),
    *(head(format=value) for value in (None, ["svmsieve-shards"], {})),
]


@pytest.mark.parametrize("number", range(len(EDITS)))
def test_one_line_says_what_is_wrong(out, number):
    edit(out, EDITS[number])
    with pytest.raises(DatasetError) as caught:
        open_shards(out)
    said = str(caught.value)
    assert "\n" not in said
    assert "\0" not in said
    assert len(said) < 400 + len(str(out))
    assert said.startswith(f"{out / MANIFEST}: ")


@pytest.mark.parametrize("name", ["../secret", "/dev/zero", None, 7])
def test_every_command_says_it(out, capsys, name):
    edit(out, shard(name=name))
    for words in (["datasets", "check", out], ["datasets", "describe", "-q", out], ["datasets", "compact", out]):
        code, said, error = command(capsys, *words)
        assert (code, said, error.count("\n")) == (1, "", 1)
    code, _, error = command(capsys, "path", "-q", out, "--out", out.parent / "run")
    assert (code, error.count("\n")) == (1, 1)
    assert "not the name of a shard" in error


def link(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


def as_large_as(path: Path, size: int) -> Path:
    path.write_bytes(SECRET.ljust(size, b"!"))
    path.chmod(0o600)
    return path


HIDDEN = {
    "a link": (link, "is a link that leaves the directory"),
    "a hard link": (lambda path, target: (path.unlink(), os.link(target, path)), "was altered"),
    "a device": (lambda path, target: link(path, Path("/dev/zero")), "is a link that leaves the directory"),
    "a pipe": (lambda path, target: (path.unlink(), os.mkfifo(path)), "is not a file"),
}


@pytest.mark.parametrize("kind", HIDDEN)
def test_nothing_that_is_no_shard_is_copied(out, tmp_path, memory, kind):
    """It has the size that the manifest says, and its time."""
    put, message = HIDDEN[kind]
    victim = out / "shard-00001.arrow"
    status = victim.stat()
    put(victim, as_large_as(tmp_path / "secret", status.st_size))
    if kind == "a hard link":
        edit(out, shard(modified=victim.stat().st_mtime_ns))
    for target in (str(tmp_path / "copy"), "memory://bucket/stolen"):
        with pytest.raises(DatasetError, match=message):
            copy_shards(str(out), target)
    assert not (tmp_path / "copy").exists()
    assert not any(SECRET in item.getvalue() for item in memory.store.values())
    with pytest.raises(DatasetError, match=message.replace("was altered", "or altered")):
        for each in open_shards(out).shards:
            each.load()


def test_a_link_within_the_directory_is_fine(out):
    (out / "shard-00001.arrow").rename(out / "elsewhere.arrow")
    (out / "shard-00001.arrow").symlink_to("elsewhere.arrow")
    assert open_shards(out, full_check=True).n_rows == 60


def test_a_data_set_of_files_whose_names_are_no_text(tmp_path):
    """Names of files are bytes; what is not UTF-8 in them is kept as halves of characters."""
    source = tmp_path / os.fsdecode(b"rows-\xff.svm")
    source.write_text("1 1:1\n-1 2:1\n")
    ingest([str(source)], tmp_path / "out", IngestSpec())
    assert open_shards(tmp_path / "out", full_check=True).n_rows == 2


def test_a_manifest_that_is_no_file(out):
    (out / MANIFEST).unlink()
    (out / MANIFEST).symlink_to("/dev/zero")
    with pytest.raises(DatasetError, match=r"manifest\.json: is not a file"):
        open_shards(out)


@pytest.mark.parametrize("features", [2, 5, 12])
def test_fewer_features_than_the_shards_have(out, features):
    """No kernel gets an index beyond them, whatever the manifest says."""
    edit(out, head(features=features))
    data = open_shards(out)
    with pytest.raises(DatasetError, match=rf"is damaged \(an index is out of order or beyond the {features} features"):
        for each in data.shards:
            each.load()
    with pytest.raises(DatasetError, match="is damaged"):
        open_shards(out, full_check=True)


def test_other_rows_than_the_shard_has(out):
    edit(out, shard(rows=16, positives=3))
    with pytest.raises(DatasetError, match=r"the shard has 17 rows and \d+ nonzeros, its manifest says other numbers"):
        open_shards(out).shards[1].load()


def test_a_manifest_behind_a_url_is_read_by_the_same_rules(out, memory):
    copy_shards(str(out), "memory://bucket/clicks")
    item = json.loads(memory.cat_file("/bucket/clicks/manifest.json"))
    for change in EDITS:
        changed = json.loads(json.dumps(item))
        change(changed)
        memory.pipe("/bucket/clicks/manifest.json", json.dumps(changed).encode())
        with pytest.raises(DatasetError):
            open_shards("memory://bucket/clicks")


def test_the_same_rows_twice_are_one_object_behind_a_url(tmp_path, memory):
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n")
    for append in (False, True):
        ingest([str(tmp_path / "rows.svm")], tmp_path / "twice", IngestSpec(append=append))
    copy_shards(str(tmp_path / "twice"), "memory://bucket/twice")
    assert open_shards("memory://bucket/twice").n_rows == 4
    assert len(memory.ls("/bucket/twice")) == 2


def test_flipped_bits_and_cuts_of_a_manifest(made):
    """Whatever is read from it agrees with its fingerprint; nothing but a SieveError is raised."""
    content, rng = (made / MANIFEST).read_bytes(), random.Random(0)
    for _ in range(3000):
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 3))):
            at = rng.randrange(len(changed))
            changed[at] ^= 1 << rng.randrange(8)
        if rng.random() < 0.1:
            del changed[rng.randrange(len(changed)) :]
        try:
            manifest = parse_manifest(bytes(changed), "manifest.json")
        except SieveError as error:
            assert "\n" not in str(error)
        else:
            parts = [(info.digest, info.rows) for info in manifest.shards]
            assert manifest.fingerprint == fingerprint(parts, manifest.features)
