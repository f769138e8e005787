"""A shard directory that is being written: locked against a second writer, and never half-finished to a reader.

A new data set grows in a hidden sibling ``.NAME.partial`` that is renamed to ``NAME`` when its manifest is written. An
append adds shards that no manifest names yet; the new manifest replaces the old one at the end.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.data.manifest import MANIFEST, Manifest, read_manifest, sync_directory, write_manifest
from pipeline.errors import DatasetError


class OpenDirectory:
    """Where new shards go (``path``), what is there already (``old``), and how to finish."""

    def __init__(self, path: Path, final: Path, old: Manifest | None) -> None:
        self.path, self.final, self.old = path, final, old

    def finish(self, manifest: Manifest) -> None:
        """Make the data set visible, all at once."""
        write_manifest(self.path, manifest)
        if self.path == self.final:
            return
        retired = self.final.with_name(f".{self.final.name}.retired")
        if self.final.exists():
            _remove(retired)
            self.final.rename(retired)
        self.path.rename(self.final)
        sync_directory(self.final.parent)
        _remove(retired)


@contextmanager
def new_directory(out: str | Path, overwrite: bool = False) -> Iterator[OpenDirectory]:
    """Open a directory for a new data set; what an earlier, killed attempt left behind is removed first."""
    final = Path(out).absolute()
    _refuse_existing(final, overwrite)
    partial = final.with_name(f".{final.name}.partial")
    with _io_errors(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir(exist_ok=True)
        with _locked(partial, final):
            for leftover in partial.iterdir():
                leftover.unlink()
            try:
                yield OpenDirectory(partial, final, None)
            finally:
                _remove(partial)


@contextmanager
def existing_directory(out: str | Path) -> Iterator[OpenDirectory]:
    """Open a finished data set for appending; shards of an append that failed or was killed are removed."""
    final = Path(out).absolute()
    with _io_errors(final):
        if not final.is_dir():
            raise DatasetError(f"{out}: no data set there to append to; run svmsieve ingest without --append first")
        with _locked(final, final):
            manifest = read_manifest(final)
            listed = {shard.name for shard in manifest.shards} | {MANIFEST}
            try:
                yield OpenDirectory(final, final, manifest)
            finally:
                listed |= {shard.name for shard in read_manifest(final).shards}
                for stray in final.glob("shard-*"):
                    if stray.name not in listed:
                        stray.unlink()


def _refuse_existing(final: Path, overwrite: bool) -> None:
    if not final.exists() or (final.is_dir() and not any(final.iterdir())):
        return
    if not (final / MANIFEST).is_file():
        raise DatasetError(f"{final}: exists and is not a data set; choose another --out")
    if not overwrite:
        raise DatasetError(
            f"{final}: a data set is there already; pass --append to add to it or --overwrite to replace it"
        )


@contextmanager
def _locked(directory: Path, final: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise DatasetError(f"{final}: another svmsieve is writing there; wait for it to finish") from error
    finally:
        os.close(descriptor)


@contextmanager
def _io_errors(final: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, DatasetError):
            raise
        reason = error.strerror or str(error).splitlines()[0]
        raise DatasetError(f"{final}: cannot be written ({reason}); nothing was changed there") from error


def _remove(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)
