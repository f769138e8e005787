"""A shard directory that is being written: locked against a second writer, and never half-finished to a reader.

A new data set grows in a hidden sibling ``.NAME.partial`` that is renamed to ``NAME`` when its manifest is written. An
append adds shards that no manifest names yet; the new manifest replaces the old one at the end. Nothing is removed but
what the journal says, and a manifest that disagrees with its directory is an error before anything is written.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from pipeline.data.shards.journal import end_journal, read_journal, write_journal
from pipeline.data.shards.manifest import MANIFEST, Manifest, read_manifest, write_manifest
from pipeline.data.shards.shard import LARGEST_NUMBER, is_shard_name, shard_name
from pipeline.data.stores.located import is_url
from pipeline.errors import DatasetError
from pipeline.files import TEMPORARY, local, locked, one_line, remove_folder, sync_directory

_OWN = re.compile(r"(manifest\.json|journal\.json|shard-[0-9]+\.arrow)((\.[0-9a-f]+)?\.tmp)?")
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE and AT_FDCWD of renameat2(2)


class OpenDirectory:
    """Where new shards go (``path``), what is there already (``old``), and how to finish."""

    def __init__(self, path: Path, final: Path, old: Manifest | None = None, replaces: bool = False) -> None:
        self.path, self.final, self.old, self.replaces = path, final, old, replaces
        self.finished = False
        self.lets_go = False  # whether shards leave with this change

    def name_of(self, number: int) -> str:
        """Return the name of a new shard; they are numbered from 0, after all that there were."""
        number += 0 if self.old is None else self.old.next_number
        if number >= LARGEST_NUMBER:
            cure = f"svmsieve datasets copy {self.final} NEW numbers them anew"
            raise DatasetError(f"{self.final}: no number is left for another shard; {cure}")
        return shard_name(number)

    def finish(self, manifest: Manifest) -> None:
        """Make the data set visible, all at once."""
        if self.old is not None:
            gone = {shard.name for shard in self.old.shards} - {shard.name for shard in manifest.shards}
            self.lets_go = bool(gone)
            if gone:
                write_journal(self.path, self.old.next_number, gone)
            if manifest.next_number < self.old.next_number:
                manifest = replace(manifest, used=self.old.next_number)
        write_manifest(self.path, manifest)
        if self.path != self.final:
            _open_to_others(self.path)
            if self.replaces:
                _replace(self.final, self.path)
            else:
                self.path.rename(self.final)  # over nothing or an empty directory; fails over anything else
                sync_directory(self.final.parent)
        self.finished = True


@contextmanager
def new_directory(out: str | Path, overwrite: bool = False) -> Iterator[OpenDirectory]:
    """Open a directory for a new data set; what an earlier, killed attempt left behind is removed first."""
    final = _local(out)
    partial = _sibling(final, "partial")
    with _io_errors(final):
        _refuse_existing(final, overwrite)
        final.parent.mkdir(parents=True, exist_ok=True)
        _make_private(partial)
        with _locked(partial, final):
            opened = OpenDirectory(partial, final)
            try:
                _restore(final)
                _refuse_existing(final, overwrite)
                opened.replaces = (final / MANIFEST).exists()
                with _locked(final, final) if final.exists() else nullcontext():
                    _clear(partial)
                    yield opened
            finally:
                if not opened.finished:
                    remove_folder(partial)


@contextmanager
def existing_directory(out: str | Path) -> Iterator[OpenDirectory]:
    """Open a finished data set to change it; what a change that failed or was killed left behind is removed."""
    final = _local(out)
    with _io_errors(final):
        _restore(final)
        if not final.is_dir():
            raise DatasetError(f"{out}: no data set there; run svmsieve ingest without --append first")
        with _locked(final, final):
            _settle(final)
            manifest = read_manifest(final)
            write_journal(final, manifest.next_number)
            try:
                yield OpenDirectory(final, final, manifest)
            finally:
                _settle(final)


def _local(out: str | Path) -> Path:
    if is_url(str(out)):
        problem = "shards are written to a local directory"
        raise DatasetError(f"{out}: {problem}; write them to a DIR, then run svmsieve datasets copy DIR {out}")
    return local(out).resolve()


def _sibling(final: Path, kind: str) -> Path:
    return final.with_name(f".{final.name}.{kind}")


def _refuse_existing(final: Path, overwrite: bool) -> None:
    if final.parent.exists() and not final.parent.is_dir():
        raise DatasetError(f"{final}: {final.parent} is not a directory; choose another --out")
    if final.is_mount():
        raise DatasetError(f"{final}: is a mount point, which cannot be renamed; choose a directory below it as --out")
    found = sorted(entry.name for entry in final.iterdir()) if final.is_dir() else []
    if not found and not (final.exists() and not final.is_dir()):
        return
    if MANIFEST not in found:
        raise DatasetError(f"{final}: exists and is not a data set; choose another --out")
    if not overwrite:
        raise DatasetError(
            f"{final}: a data set is there already; pass --append to add to it or --overwrite to replace it"
        )
    foreign = [name for name in found if not _OWN.fullmatch(name)]
    if foreign:
        raise DatasetError(f"{final}: {foreign[0]} there is not part of the data set; move it away first")


def _replace(final: Path, new: Path) -> None:
    """Put ``new`` in the place of the data set ``final`` in one step, then remove the old one.

    Where the file system cannot exchange two names, the old one is out of the way for a moment, under a name that
    ``_restore`` knows.
    """
    old = new
    if not _exchange(new, final):
        old = _sibling(final, "retired")
        shutil.rmtree(old, ignore_errors=True)
        final.rename(old)
        try:
            new.rename(final)
        except OSError:
            old.rename(final)
            raise
    sync_directory(final.parent)
    shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step, if the system can."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0


def _restore(final: Path) -> None:
    """Bring back a data set that a writer killed between two renames left out of the way; drop one it had replaced."""
    retired = _sibling(final, "retired")
    if (final / MANIFEST).is_file():
        shutil.rmtree(retired, ignore_errors=True)
    elif not final.exists() and (retired / MANIFEST).is_file():
        with _locked(retired, final):
            retired.rename(final)


def _clear(directory: Path) -> None:
    for leftover in directory.iterdir():
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover)
        else:
            leftover.unlink()


def _settle(directory: Path) -> None:
    """End a change: remove what the manifest does not name, if that is what was being changed; else change nothing."""
    manifest, journal = read_manifest(directory), read_journal(directory)
    with os.scandir(directory) as entries:
        found = {entry.name for entry in entries}
    named = {shard.name for shard in manifest.shards}
    advice = "restore the manifest.json that belongs to these shards"
    for name in sorted(named - found)[:1]:
        raise DatasetError(f"{directory}: manifest.json names {name}, which is not there; {advice} or that shard")
    if len(named) < len(manifest.shards):
        raise DatasetError(f"{directory}: manifest.json names a shard twice; copy the data set anew to change it")
    strays = sorted(name for name in found - named if is_shard_name(name))
    for name in strays:
        if journal is None or not journal.explains(name, manifest.next_number):
            problem = f"{name} is there, but manifest.json does not name it"
            raise DatasetError(f"{directory}: {problem}; {advice}, or move that shard away if it is not needed")
    half = (name for name in found if name.endswith(TEMPORARY) and _OWN.fullmatch(name))
    for name in (*strays, *half):
        (directory / name).unlink()
    if journal is not None:
        end_journal(directory)


def _make_private(partial: Path) -> None:
    """Make the folder where a data set grows, or take over one that a killed attempt of the same user left."""
    partial.mkdir(mode=0o700, exist_ok=True)
    status = partial.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise DatasetError(f"{partial}: is in the way and not yours; remove it or choose another --out")
    partial.chmod(0o700)


def _open_to_others(folder: Path) -> None:
    """Give a private folder the permissions that a new one has here."""
    usual = folder / ".usual"
    usual.mkdir()
    mode = stat.S_IMODE(usual.stat().st_mode)
    usual.rmdir()
    folder.chmod(mode)


def _locked(directory: Path, final: Path) -> AbstractContextManager[None]:
    return locked(directory, DatasetError(f"{final}: another svmsieve is writing there; wait for it to finish"))


def _io_errors(final: Path) -> AbstractContextManager[None]:
    return one_line(lambda reason: DatasetError(f"{final}: cannot be written ({reason}); nothing was changed there"))
