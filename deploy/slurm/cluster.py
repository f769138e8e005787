"""The nightly job on SLURM: workers are SLURM jobs, the scheduler and the client run here (``nightly.sbatch``).

    python cluster.py JOB.yaml --certificates DIR [--workers 4] [--print-script]

The cluster speaks TLS with the credentials in DIR (``svmsieve cluster certificates DIR``). Every node has to see DIR
and the store of job.yaml. Workers that SLURM starts late join late. The exit code is the one of ``svmsieve nightly``.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from dask_jobqueue import SLURMCluster
from distributed import Client
from distributed.security import Security

from pipeline.engine.tls import security_of_all
from pipeline.errors import EngineError


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=Path, metavar="JOB.yaml")
    parser.add_argument("--certificates", type=Path, required=True, metavar="DIR", help="its credentials")
    parser.add_argument("--workers", type=int, default=4, help="SLURM jobs to submit [4]")
    parser.add_argument("--cores", type=int, default=4, help="threads of a worker [4]")
    parser.add_argument("--memory", default="16GB", help="memory of a worker's job [16GB]")
    parser.add_argument("--walltime", default="06:00:00", help="time limit of a worker's job [06:00:00]")
    parser.add_argument("--partition", help="SLURM partition of the workers")
    parser.add_argument("--account", help="SLURM account of the workers")
    parser.add_argument("--interface", help="network that the nodes share, such as ib0")
    parser.add_argument("--local-directory", default="/tmp", help="a folder on the worker's node [/tmp]")  # noqa: S108
    parser.add_argument("--logs", type=Path, default=Path("logs"), help="folder for the workers' logs [logs]")
    parser.add_argument("--queued", type=float, default=3600, help="seconds to wait for the first worker [3600]")
    parser.add_argument("--print-script", action="store_true", help="print a worker's batch script and leave")
    return parser.parse_args()


def cluster(options: argparse.Namespace, security: Security) -> SLURMCluster:
    """Start the scheduler here. Its HTTP server and those of the workers answer on loopback only.

    Dask's own memory limit would count the mapped shards, which the kernel drops when memory is short; SLURM's holds.
    """
    return SLURMCluster(
        cores=options.cores,
        processes=1,
        memory=options.memory,
        walltime=options.walltime,
        queue=options.partition,
        account=options.account,
        interface=options.interface,
        local_directory=options.local_directory,
        log_directory=str(options.logs),
        job_name="svmsieve-worker",
        security=security,
        scheduler_options={"dashboard_address": "127.0.0.1:0"},
        worker_extra_args=["--dashboard-address", "127.0.0.1:0", "--memory-limit", "0"],
    )


def credentials(security: Security) -> dict[str, str]:
    """Return the environment that makes ``svmsieve`` a client of this cluster."""
    prefix = "DASK_DISTRIBUTED__COMM__"
    return {
        f"{prefix}REQUIRE_ENCRYPTION": "true",
        f"{prefix}TLS__CA_FILE": security.tls_ca_file,
        f"{prefix}TLS__CLIENT__CERT": security.tls_client_cert,
        f"{prefix}TLS__CLIENT__KEY": security.tls_client_key,
    }


def main() -> int:
    """Start the cluster, run the nightly job on it, end the cluster."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # SLURM's end: cancel the workers' jobs
    options = arguments()
    try:
        security = security_of_all(options.certificates)
    except EngineError as error:
        sys.exit(f"cluster.py: {error}")
    with cluster(options, security) as slurm:
        if options.print_script:
            print(slurm.job_script())
            return 0
        slurm.scale(jobs=options.workers)
        with Client(slurm, set_as_default=False) as client:
            try:
                client.wait_for_workers(1, timeout=options.queued)
            except TimeoutError:
                sys.exit(
                    f"cluster.py: SLURM has started no worker in {options.queued:g} s; see squeue and {options.logs}"
                )
        svmsieve = Path(sys.executable).with_name("svmsieve")
        command = [svmsieve, "nightly", options.job, "--scheduler", slurm.scheduler_address]
        return subprocess.run(command, env=os.environ | credentials(security), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
