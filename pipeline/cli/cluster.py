"""``svmsieve cluster``: a Dask cluster on this machine, with TLS, for trying things out."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli.options import Local, Size
from pipeline.progress import counted

EXAMPLES = """
\b
Examples:
  svmsieve cluster up --workers 2 --memory 2GB
  svmsieve path clicks --out run --scheduler tls://127.0.0.1:40123     # the address that up printed
  svmsieve cluster down
"""
FOR_OTHERS = """
\b
Examples:
  svmsieve cluster certificates certs
  svmsieve cluster certificates certs --host scheduler.example.org --host 10.0.0.7 --days 90
  dask scheduler --protocol tls --tls-ca-file certs/ca.pem --tls-cert certs/scheduler.pem \\
                 --tls-key certs/scheduler-key.pem
"""

dir_option = click.option(
    "--dir", "folder", metavar="DIR", help="Where its state, certificates and logs are [default: a folder of yours]."
)


@click.group(epilog=EXAMPLES)
def cluster() -> None:
    """Start and end a Dask cluster on this machine, reachable from it alone; make certificates for any cluster."""


@cluster.command("up", epilog=EXAMPLES)
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True, metavar="N", help="Processes.")
@click.option("--memory", type=Size(), default="2GB", show_default=True, metavar="SIZE", help="Of each worker.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Of each worker.")
@dir_option
def up_command(workers: int, memory: int, threads: int, folder: str | None) -> None:
    """Start a scheduler and N workers with TLS certificates made on the spot; print the address."""
    from pipeline.engine.local_cluster import start_cluster

    found = start_cluster(_folder(folder), workers, memory, threads)
    click.echo(f"{found.address}: a scheduler and {counted(workers, 'worker')}; logs in {found.folder}")
    click.echo(f"svmsieve path DATA --out RUN --scheduler {found.address}")


@cluster.command("down", epilog="\b\nExample:\n  svmsieve cluster down")
@dir_option
def down_command(folder: str | None) -> None:
    """End the cluster that up started: its processes, and no others."""
    from pipeline.engine.local_cluster import end_cluster

    found = end_cluster(_folder(folder))
    click.echo(f"{found.address}: ended")


@cluster.command("status", epilog="\b\nExample:\n  svmsieve cluster status")
@dir_option
def cluster_status_command(folder: str | None) -> None:
    """Say whether a cluster is up, and where."""
    from pipeline.engine.local_cluster import find_cluster

    place = _folder(folder)
    found = find_cluster(place)
    if found is None:
        click.echo(f"no cluster is up in {place}")
        return
    click.echo(f"{found.address}: {found.alive} of {len(found.members)} processes running")


@cluster.command("certificates", epilog=FOR_OTHERS)
@click.argument("folder", metavar="DIR", type=Local())
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", help="Of the scheduler or a worker, for who compares it."
)
@click.option("--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="How long they are valid.")
@click.option("--keep", is_flag=True, help="If they are there and valid, leave them; to run before every start.")
def certificates_command(folder: str, hosts: tuple[str, ...], days: int, keep: bool) -> None:
    """Make the TLS certificates and keys that scheduler, workers and clients of one cluster share.

    Who has none of them is refused, and nobody can make more: the authority's key is not kept. To renew them, remove
    them, run this again and restart the cluster.
    """
    from pipeline.engine.tls import FILES, check_credentials, make_credentials

    place = Path(folder)
    if not keep or not any((place / name).exists() for name in FILES):
        make_credentials(place, hosts, days)
    until = check_credentials(place, hosts)
    click.echo(f"{place}: ca.pem, and certificate and key of scheduler, worker and client, until {until:%Y-%m-%d}")


def _folder(given: str | None) -> Path:
    from pipeline.engine.local_cluster import default_folder

    return Path(given).resolve() if given else default_folder()
