"""``svmsieve cluster``: a Dask cluster on this machine, with TLS, for trying things out."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli.options import Size
from pipeline.cli.progress import counted

EXAMPLES = """
\b
Examples:
  svmsieve cluster up --workers 2 --memory 2GB
  svmsieve path clicks --out run --scheduler tls://127.0.0.1:40123     # the address that up printed
  svmsieve cluster down
"""

dir_option = click.option(
    "--dir", "folder", metavar="DIR", help="Where its state, certificates and logs are [default: a folder of yours]."
)


@click.group(epilog=EXAMPLES)
def cluster() -> None:
    """Start and end a Dask cluster on this machine, reachable from it alone and encrypted."""


@cluster.command("up", epilog=EXAMPLES)
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True, metavar="N", help="Processes.")
@click.option("--memory", type=Size(), default="2GB", show_default=True, metavar="SIZE", help="Of each worker.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Of each worker.")
@dir_option
def up_command(workers: int, memory: int, threads: int, folder: str | None) -> None:
    """Start a scheduler and N workers with TLS certificates made on the spot; print the address."""
    from pipeline.engine.local_cluster import up

    found = up(_folder(folder), workers, memory, threads)
    click.echo(f"{found.address}: a scheduler and {counted(workers, 'worker')}; logs in {found.folder}")
    click.echo(f"svmsieve path DATA --out RUN --scheduler {found.address}")


@cluster.command("down", epilog="\b\nExample:\n  svmsieve cluster down")
@dir_option
def down_command(folder: str | None) -> None:
    """End the cluster that up started: its processes, and no others."""
    from pipeline.engine.local_cluster import down

    found = down(_folder(folder))
    click.echo(f"{found.address}: ended")


@cluster.command("status", epilog="\b\nExample:\n  svmsieve cluster status")
@dir_option
def status_command(folder: str | None) -> None:
    """Say whether a cluster is up, and where."""
    from pipeline.engine.local_cluster import find

    place = _folder(folder)
    found = find(place)
    if found is None:
        click.echo(f"no cluster is up in {place}")
        return
    click.echo(f"{found.address}: {found.alive} of {len(found.members)} processes running")


def _folder(given: str | None) -> Path:
    from pipeline.engine.local_cluster import default_folder

    return Path(given).resolve() if given else default_folder()
