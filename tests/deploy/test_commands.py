"""Every command line of deploy/, run by real processes: certificates, schedulers, workers, probes, the nightly job."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipeline.engine.tls import FILES
from tests.deploy.units import read_unit
from tests.deploy.world import DEPLOY, World, listening, running, wait_for, write_clicks


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path / "world")
    write_clicks(world.path("/data/incoming/clicks-2026-11-16.svm.gz"))
    return world


def make_certificates(folder):
    command = [Path(sys.executable).with_name("svmsieve"), "cluster", "certificates", folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def finish(command, environment, log):
    """Run a command to its end; return its exit code."""
    with running(command, log, environment) as process:
        return process.wait(200)


def published(world, store="/data/clicks"):
    """The last line of the history of a store, after a look at what it says was published."""
    folder = world.path(store)
    night = json.loads((folder / "history.jsonl").read_text().splitlines()[-1])
    assert night["status"] == "published", night
    assert (folder / "current").is_symlink() and (folder / "current" / "run.json").exists()
    return night


def speaks_tls_only_with_us(address, certs):
    """Whether a port answers who has our credentials, and neither who has none nor who does not encrypt."""
    ours = ssl.create_default_context(cafile=certs / "ca.pem")
    ours.check_hostname = False
    ours.load_cert_chain(certs / "client.pem", certs / "client-key.pem")
    with socket.create_connection(address, 10) as raw, ours.wrap_socket(raw) as stream:
        with_credentials = bool(stream.recv(1))
    stranger = ssl._create_unverified_context()  # noqa: S323 - a stranger who trusts everybody
    with_none, in_plain = b"", b""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(address, 10) as raw,
        stranger.wrap_socket(raw) as stream,
    ):
        with_none = stream.recv(1)
    with contextlib.suppress(OSError), socket.create_connection(address, 10) as raw:
        raw.sendall(b"GET / HTTP/1.0\r\n\r\n")
        in_plain = raw.recv(100)
    return with_credentials and not with_none and b"HTTP" not in in_plain and b"compression" not in in_plain


def start(stack, world, name, words, environment):
    log = world.root / f"{name}.log"
    return stack.enter_context(running(world.command(words, name), log, environment))


def check_health(world, name, words, process):
    """Run a probe until it says yes."""
    probe = world.command(words, name)
    wait_for(
        lambda: process.poll() is None and subprocess.run(probe, capture_output=True, check=False).returncode == 0,
        f"{name}: see {world.root / name}.log",
    )


def check_listeners(world, name, process, public):
    """Only TLS faces the network: ``public`` ports and no other; HTTP answers on loopback."""
    wait_for(lambda: len(listening(process.pid)) > public, f"{name} to listen")
    found = listening(process.pid)
    outside = {address for address in found if address[0] != world.loopback(name)}
    assert found - outside == {(world.loopback(name), world.port(8787))}
    assert [host for host, _ in outside] == [world.public(name)] * public
    assert all(speaks_tls_only_with_us(address, world.path("/certs")) for address in outside)


def test_compose(world):
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    environment = world.image_environment()
    for mount in (volume for service in services.values() for volume in service["volumes"]):
        source, inside, *_ = mount.split(":")
        if source.startswith("./"):
            target = world.path(inside)
            target.write_text((DEPLOY / source).read_text())
    world.mount_job((DEPLOY / "job.yaml").read_text(), "/etc/svmsieve/job.yaml")

    making = services["certificates"]
    command = world.command(["svmsieve", *making["command"]], "certificates")
    for _ in range(2):  # once, and at a later start
        assert finish(command, environment, world.root / "certificates.log") == 0
    assert sorted(path.name for path in world.path("/certs").iterdir()) == sorted(FILES)

    with contextlib.ExitStack() as stack:
        copies = ["scheduler", *(f"worker-{i}" for i in range(services["worker"]["deploy"]["replicas"]))]
        processes = {}
        for name in copies:
            service = services[name.split("-")[0]]
            processes[name] = start(stack, world, name, [*service["entrypoint"], *service["command"]], environment)
        for name, process in processes.items():
            service = services[name.split("-")[0]]
            check_health(world, name, service["healthcheck"]["test"][1:], process)
            check_listeners(world, name, process, public=1 if name == "scheduler" else 2)
        nightly = world.command(["svmsieve", *services["nightly"]["command"]], "nightly")
        log = world.root / "nightly.log"
        assert finish(nightly, environment, log) == 0, log.read_text()
    assert published(world)["rows"] == 200


def test_kubernetes(world):
    folder = DEPLOY / "kubernetes"
    spec = yaml.safe_load((folder / "daskcluster.yaml").read_text())["spec"]
    pods = {part: spec[part]["spec"]["containers"][0] for part in ("scheduler", "worker")}
    cron = yaml.safe_load((folder / "cronjob.yaml").read_text())["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    settings = yaml.safe_load((folder / "configmap.yaml").read_text())["data"]["job.yaml"]
    world.mount_job(settings, "/etc/svmsieve/job.yaml")
    assert make_certificates(world.path("/certs")).returncode == 0

    image = world.image_environment()
    with contextlib.ExitStack() as stack:
        processes = {}
        for name, container in pods.items():
            environment = image | {item["name"]: world.said(item["value"], name) for item in container["env"]}
            words = [word.replace("$(DASK_WORKER_NAME)", "w-1") for word in container["command"] + container["args"]]
            processes[name] = start(stack, world, name, words, environment)
        for name, container in pods.items():
            for probe in ("readinessProbe", "livenessProbe"):
                if probe in container:
                    check_health(world, name, container[probe]["exec"]["command"], processes[name])
            check_listeners(world, name, processes[name], public=len(container["ports"]))
            ports = {world.port(port["containerPort"]) for port in container["ports"]}
            assert ports <= {port for _, port in listening(processes[name].pid)}
        nightly = world.command(["svmsieve", *cron["containers"][0]["args"]], "nightly")
        log = world.root / "nightly.log"
        assert finish(nightly, image, log) == 0, log.read_text()
    assert published(world)["rows"] == 200


def test_systemd(world):
    service = read_unit(DEPLOY / "systemd" / "svmsieve-nightly.service")["Service"]
    for directory, base in (("StateDirectory", "/var/lib"), ("CacheDirectory", "/var/cache")):
        assert world.path(f"{base}/{service[directory][0]}").is_dir()
    job = (DEPLOY / "job.yaml").read_text().replace("/data/clicks", "/var/lib/svmsieve/clicks")
    world.mount_job(job, "/etc/svmsieve/job.yaml")
    variables = dict(word.split("=", 1) for word in shlex.split(world.said(service["Environment"][0], "systemd")))
    assert all(value.startswith(str(world.root / "var/cache")) for value in variables.values())
    command = world.command(shlex.split(service["ExecStart"][0]), "systemd")
    log = world.root / "nightly.log"
    environment = {"SVMSIEVE_CACHE": variables["SVMSIEVE_CACHE"]}
    assert finish(command, environment, log) == 0, log.read_text()
    first = published(world, "/var/lib/svmsieve/clicks")
    assert finish(command, environment, log) == 0
    assert "nothing new" in log.read_text()
    assert published(world, "/var/lib/svmsieve/clicks") == first


SBATCH = """#!/bin/sh
# Stands for SLURM: runs the job's script here.
script={jobs}/job-$$.sh
cp "$1" "$script"
setsid bash "$script" > {jobs}/job-$$.log 2>&1 &
echo $! > {jobs}/job-$$.pid
echo "Submitted batch job $$"
"""
SCANCEL = """#!/bin/sh
echo "$1" >> {jobs}/cancelled
kill -- "-$(cat {jobs}/job-$1.pid)"
"""


@pytest.fixture
def slurm(world):
    """A folder with sbatch and scancel; what they run is in ``jobs`` beside it, and gone at the end."""
    jobs, tools = world.root / "jobs", world.root / "tools"
    jobs.mkdir()
    tools.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (tools / name).write_text(text.format(jobs=jobs))
        (tools / name).chmod(0o755)
    try:
        yield tools
    finally:
        for note in jobs.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(note.read_text()), signal.SIGKILL)


def test_slurm(world, slurm):
    home, log = world.root / "home", world.root / "nightly.log"
    home.mkdir()
    (home / "venv").symlink_to(sys.prefix)
    for name in ("cluster.py", "nightly.sbatch"):
        (home / name).write_text((DEPLOY / "slurm" / name).read_text())
    world.mount_job((DEPLOY / "job.yaml").read_text(), "home/job.yaml")
    assert make_certificates(home / "certs").returncode == 0
    size, small = "--workers 4 --cores 4", "--workers 1 --cores 2 --interface lo --local-directory ."
    script = (home / "nightly.sbatch").read_text()
    assert script.count(size) == 1
    (home / "nightly.sbatch").write_text(script.replace(size, small))

    environment = {"SVMSIEVE_HOME": str(home), "PATH": f"{slurm}:/usr/bin:/bin"}
    assert finish(["bash", str(home / "nightly.sbatch")], environment, log) == 0, log.read_text()
    assert published(world)["rows"] == 200

    (job,) = (world.root / "jobs").glob("*.sh")
    assert (world.root / "jobs" / "cancelled").read_text().split() == [job.stem.removeprefix("job-")]
    lines = job.read_text().splitlines()
    assert {"#SBATCH --cpus-per-task=2", "#SBATCH --mem=15G", "#SBATCH -t 06:00:00"} <= set(lines)
    (worker,) = (shlex.split(line) for line in lines if "dask_worker" in line)
    options = dict(itertools.pairwise(worker))
    assert worker[3].startswith("tls://127.0.0.1:")
    assert options["--protocol"] == "tls://"
    assert options["--tls-ca-file"] == str(home / "certs" / "ca.pem")
    assert options["--dashboard-address"] == "127.0.0.1:0"
    assert options["--memory-limit"] == "0"

    (home / "nightly.sbatch").write_text(script.replace(size, f"{small} --print-script"))
    assert finish(["bash", str(home / "nightly.sbatch")], environment, log) == 0
    printed = log.read_text().splitlines()
    assert [line for line in printed if line.startswith("#SBATCH")] == [x for x in lines if x.startswith("#SBATCH")]
