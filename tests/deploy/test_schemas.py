"""deploy/ read, not run: the schemas that packages and tools offer, and what must hold from one file to the next."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pipeline.nightly.job import KNOWN, read_job
from pipeline.sizes import bytes_of
from tests.deploy.dockerfile import Context, read_dockerfile
from tests.deploy.units import read_unit
from tests.deploy.world import DEPLOY

KUBERNETES = "1.30"
USER = 10001
PROJECT = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
IMAGE = f"svmsieve:{PROJECT['version']}"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def documents(name):
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def cluster():
    (resource,) = documents("kubernetes/daskcluster.yaml")
    return resource


def cron():
    (resource,) = documents("kubernetes/cronjob.yaml")
    return resource["spec"]["jobTemplate"]["spec"]["template"]


def pods():
    """The three pod specs by the name of their container."""
    spec = cluster()["spec"]
    found = (spec["scheduler"]["spec"], spec["worker"]["spec"], cron()["spec"])
    return {pod["containers"][0]["name"]: pod for pod in found}


def as_core_resources():
    """All manifests as kinds that Kubernetes itself knows: the operator's are taken apart."""
    known = [item for path in MANIFESTS for item in documents(path)]
    known = [item for item in known if item["kind"] not in ("DaskCluster", "Kustomization")]
    known += [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": n}, "spec": pod} for n, pod in pods().items()]
    service = cluster()["spec"]["scheduler"]["service"]
    return [*known, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "scheduler"}, "spec": service}]


def check_compose(path):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_compose_fits_the_specification(tmp_path):
    result = check_compose(DEPLOY / "compose.yaml")
    assert result.returncode == 0, result.stdout
    (spoiled,) = documents("compose.yaml")
    spoiled["services"]["worker"]["deploy"]["replica"] = 2
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump(spoiled))
    assert "replica" in check_compose(tmp_path / "compose.yaml").stdout


def test_compose_services_are_confined_and_publish_nothing():
    (compose,) = documents("compose.yaml")
    assert compose["networks"] == {"cluster": {"internal": True}}
    for name, service in compose["services"].items():
        assert "ports" not in service and not service.get("privileged"), name
        assert service.get("networks", service.get("network_mode")) in (["cluster"], "none"), name
        assert service["read_only"] is True and service["tmpfs"] == ["/tmp"], name  # noqa: S108
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"], name
        writable = {volume.split(":")[1] for volume in service["volumes"] if not volume.endswith(":ro")}
        assert writable <= {"/var/cache/svmsieve"} | {"certificates": {"/certs"}, "nightly": {"/data"}}.get(name, set())
    assert compose["services"]["nightly"]["profiles"] == ["nightly"]


@pytest.mark.parametrize("resource", as_core_resources(), ids=lambda item: f"{item['kind']}-{item['metadata']['name']}")
def test_manifests_fit_kubernetes(resource):
    kubernetes_validate.validate(resource, KUBERNETES, strict=True)
    spoiled = copy.deepcopy(resource)
    spoiled.setdefault("spec", {})["misspelt"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match=r"misspelt|spec"):
        kubernetes_validate.validate(spoiled, KUBERNETES, strict=True)


def test_the_cluster_is_one_for_the_operator():
    resource = cluster()
    assert (resource["apiVersion"], resource["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    assert set(resource["spec"]) == {"scheduler", "worker"}
    assert set(resource["spec"]["scheduler"]) == {"spec", "service"}
    assert set(resource["spec"]["worker"]) == {"spec", "replicas"}
    address = f"tls://{resource['metadata']['name']}-scheduler:8786"  # the operator adds the suffix
    for name in ("scheduler", "worker"):
        assert {"name": "DASK_SCHEDULER_ADDRESS", "value": address} in pods()[name]["containers"][0]["env"]
    for name in ("worker", "nightly"):
        assert address in pods()[name]["containers"][0]["args"]


@pytest.mark.parametrize("name", ["scheduler", "worker", "nightly"])
def test_pods_are_confined(name):
    pod = pods()[name]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == USER
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    limited = {"cpu", "memory", "ephemeral-storage"}
    assert set(container["resources"]["requests"]) == set(container["resources"]["limits"]) == limited
    cache = {item["name"]: item["value"] for item in container.get("env", ())}.get("SVMSIEVE_CACHE_SIZE")
    assert name == "scheduler" or bytes_of(cache) < bytes_of(
        f"{container['resources']['limits']['ephemeral-storage']}B"
    )

    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"] for mount in mounts.values()} == set(volumes)
    assert volumes["tls"]["secret"]["secretName"] == "svmsieve-tls" and mounts["/certs"]["readOnly"]
    assert volumes[mounts["/tmp"]["name"]]["emptyDir"] == {}  # noqa: S108
    image = read_dockerfile()[-1].environment({"PATH": ""})
    named = {value for key, value in image.items() if key != "PATH" and value.startswith("/")}
    named |= {word for word in container["args"] if word.startswith("/")}
    assert all(any(Path(path).is_relative_to(mount) for mount in mounts) for path in named)
    if name == "worker":
        assert mounts["/data"]["readOnly"] is True


def test_the_job_runs_once_at_a_time_and_is_not_tried_again_when_that_is_no_use():
    (resource,) = documents("kubernetes/cronjob.yaml")
    assert resource["spec"]["concurrencyPolicy"] == "Forbid"
    (rule,) = resource["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [2, 3])
    assert cron()["spec"]["restartPolicy"] == "Never"
    service = read_unit(DEPLOY / "systemd" / "svmsieve-nightly.service")["Service"]
    assert service["RestartPreventExitStatus"] == ["2 3"]


def test_only_job_and_workers_reach_the_scheduler():
    policies = {item["metadata"]["name"]: item["spec"] for item in documents("kubernetes/networkpolicy.yaml")}
    assert policies["svmsieve-nobody"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    name = cluster()["metadata"]["name"]
    members = {part: {"dask.org/cluster-name": name, "dask.org/component": part} for part in ("scheduler", "worker")}
    job = cron()["metadata"]["labels"]
    for part, allowed in (("scheduler", [job, members["worker"]]), ("worker", [job, {"dask.org/cluster-name": name}])):
        policy = policies[f"svmsieve-{part}"]
        assert policy["podSelector"] == {"matchLabels": members[part]}
        (rule,) = policy["ingress"]
        assert [peer["podSelector"]["matchLabels"] for peer in rule["from"]] == allowed
        ports = [port["containerPort"] for port in pods()[part]["containers"][0]["ports"]]
        assert [port["port"] for port in rule["ports"]] == ports


@pytest.mark.attack
def test_pods_reach_each_other_and_nobody_else():
    """What goes out is what comes in elsewhere: every pod's egress fits the ingress of whom it goes to."""
    policies = {item["metadata"]["name"]: item["spec"] for item in documents("kubernetes/networkpolicy.yaml")}
    assert "egress" not in policies["svmsieve-nobody"], "everything is forbidden, then some of it allowed"
    names = policies.pop("svmsieve-names")["egress"]
    assert {(port["protocol"], port["port"]) for rule in names for port in rule["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert all(peer["podSelector"]["matchLabels"] for rule in names for peer in rule["to"])
    ingress = {part: policies[f"svmsieve-{part}"]["ingress"][0]["ports"] for part in ("scheduler", "worker")}
    expected = {"scheduler": {"worker"}, "worker": {"scheduler", "worker"}, "nightly": {"scheduler", "worker"}}
    for part, reached in expected.items():
        rules = policies[f"svmsieve-{part}"]["egress"]
        targets = [peer["podSelector"]["matchLabels"]["dask.org/component"] for rule in rules for peer in rule["to"]]
        assert set(targets) == reached, part
        assert all(set(peer) == {"podSelector"} for rule in rules for peer in rule["to"]), "of this namespace"
        assert [rule["ports"] for rule in rules] == [ingress[target] for target in targets]


def test_kustomization_lists_every_manifest():
    (kustomization,) = documents("kubernetes/kustomization.yaml")
    assert sorted(kustomization["resources"]) == [path.name for path in MANIFESTS if path.name != "kustomization.yaml"]
    (claim,) = documents("kubernetes/storage.yaml")
    volumes = [volume for pod in pods().values() for volume in pod["volumes"] if volume["name"] == "data"]
    assert [volume["persistentVolumeClaim"]["claimName"] for volume in volumes] == [claim["metadata"]["name"]] * 2


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not here")
def test_kubectl_puts_the_manifests_together():
    result = subprocess.run(["kubectl", "kustomize", DEPLOY / "kubernetes"], capture_output=True, text=True, check=True)
    made = list(yaml.safe_load_all(result.stdout))
    assert len(made) == sum(len(documents(path)) for path in MANIFESTS) - 1
    assert {item["metadata"].get("namespace") for item in made if item["kind"] != "Namespace"} == {"svmsieve"}
    assert re.findall(r"image: (\S+)", result.stdout) == [IMAGE] * 3


def test_the_example_job_is_one():
    job = read_job(DEPLOY / "job.yaml")
    (said,) = documents("job.yaml")
    assert set(said) == set(KNOWN) - {"workers", "solve_on", "expect", "notify", "max_line"}  # as comments
    assert job.keep == 14 and len(job.gates) == 2
    (configmap,) = documents("kubernetes/configmap.yaml")
    assert yaml.safe_load(configmap["data"]["job.yaml"]) == said
    assert cron()["spec"]["volumes"][0]["configMap"]["name"] == configmap["metadata"]["name"]

    budget = job.training.settings["memory"]
    (compose,) = documents("compose.yaml")
    service = read_unit(DEPLOY / "systemd" / "svmsieve-nightly.service")["Service"]
    limits = [
        compose["services"]["nightly"]["deploy"]["resources"]["limits"]["memory"],
        pods()["nightly"]["containers"][0]["resources"]["limits"]["memory"].replace("i", ""),
        service["MemoryMax"][0],
        re.findall(r"--mem=(\S+)", (DEPLOY / "slurm" / "nightly.sbatch").read_text())[0],
    ]
    assert all(bytes_of(f"{limit}B") > budget for limit in limits)


def test_the_image_is_small_and_nobody_s():
    build, final = read_dockerfile()
    assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", final.base)
    assert build.base == final.base.replace("-slim", "")
    assert final.last("USER") == f"{USER}:{USER}"
    assert [value for keyword, value in final.steps if keyword == "COPY"] == [
        "--from=build /opt/svmsieve /opt/svmsieve"
    ]
    commands = " ".join(value for keyword, value in final.steps if keyword == "RUN")
    assert f"--uid {USER}" in commands and "apt" not in commands
    images = {pod["containers"][0]["image"] for pod in pods().values()}
    images |= {service["image"] for service in documents("compose.yaml")[0]["services"].values()}
    assert images == {IMAGE}


@pytest.mark.attack
def test_packages_are_pinned_at_versions_without_known_holes():
    """Every requirement and what it brings has one version in constraints.txt, which the floors of pyproject allow."""
    lines = [line for line in (DEPLOY / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pinned = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    assert len(pinned) == len(lines) > 50
    needed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["s3"]]
    for requirement in map(Requirement, needed):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement
    waiting = [canonicalize_name(Requirement(text).name) for text in (*needed, "dask-jobqueue")]
    brought = set()
    while waiting:
        name = waiting.pop()
        if name not in brought:
            brought.add(name)
            given = map(Requirement, metadata.requires(name) or ())
            waiting += [
                canonicalize_name(r.name) for r in given if r.marker is None or r.marker.evaluate({"extra": ""})
            ]
    assert brought - set(pinned) == set()
    (step,) = (value for keyword, value in read_dockerfile()[0].steps if keyword == "ENV")
    assert step == "PIP_CONSTRAINT=/src/constraints.txt"
    assert (DEPLOY / "README.md").read_text().count("install -c deploy/constraints.txt .") == 2


@pytest.mark.attack
def test_logs_and_processes_have_limits_and_a_failure_is_told():
    (compose,) = documents("compose.yaml")
    for name, service in compose["services"].items():
        assert service["pids_limit"] <= 1024, name
        assert set(service["logging"]["options"]) == {"max-size", "max-file"}, name
    unit = read_unit(DEPLOY / "systemd" / UNITS[0])
    assert {"TasksMax", "LogRateLimitBurst"} <= set(unit["Service"])
    assert unit["Unit"]["OnFailure"] == ["svmsieve-failed@%N.service"]
    assert (DEPLOY / "systemd" / "svmsieve-failed@.service").is_file()


def test_the_image_is_built_from_the_package_alone():
    context = Context()
    inside = ("pipeline/cli/path.py", "pyproject.toml", "datasets.yaml", "README.md", "deploy/constraints.txt")
    outside = (".git/config", "deploy/job.yaml", "certs/key.pem", "tests/oracle.py", "pipeline/cli/__pycache__/a.pyc")
    assert [context.holds(Path(path)) for path in (*inside, *outside)] == [True] * 5 + [False] * 5


@pytest.mark.parametrize("name", ["slurm/nightly.sbatch"])
def test_scripts_pass_shellcheck(name):
    shellcheck = Path(sys.executable).with_name("shellcheck")
    result = subprocess.run([shellcheck, DEPLOY / name], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert (DEPLOY / name).stat().st_mode & 0o111 == 0o111


UNITS = ("svmsieve-nightly.service", "svmsieve-nightly.timer", "svmsieve-failed@.service")


def test_the_timer_makes_up_for_missed_nights():
    timer = read_unit(DEPLOY / "systemd" / UNITS[1])
    assert timer["Timer"]["Persistent"] == ["true"] and "RandomizedDelaySec" in timer["Timer"]
    assert timer["Install"] == {"WantedBy": ["timers.target"]}
    service = read_unit(DEPLOY / "systemd" / UNITS[0])["Service"]
    confined = {"ProtectSystem": ["strict"], "NoNewPrivileges": ["yes"], "CapabilityBoundingSet": [""]}
    assert {key: service[key] for key in confined} == confined
    assert "MemoryDenyWriteExecute" not in service  # Numba could not run


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not here")
def test_systemd_accepts_the_units(tmp_path):
    program = Path(sys.executable).with_name("svmsieve")
    for name in UNITS:
        text = (DEPLOY / "systemd" / name).read_text()
        (tmp_path / name).write_text(text.replace("/opt/svmsieve/bin/svmsieve", str(program)))
    units = [str(tmp_path / name) for name in UNITS]
    verify = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no"]
    result = subprocess.run([*verify, *units], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")
    (tmp_path / UNITS[0]).write_text((tmp_path / UNITS[0]).read_text().replace("MemoryMax=6G", "MemoryMax=six"))
    spoiled = subprocess.run([*verify, *units], capture_output=True, text=True, check=False)
    assert "six" in spoiled.stderr


def test_the_guide_names_files_that_are_there():
    guide = (DEPLOY / "README.md").read_text()
    named = re.findall(r"\]\((?!http)([^)]+)\)", guide) + re.findall(r"(?<![\w/])deploy/([\w./-]+)", guide)
    assert len(named) > 15
    assert [name for name in named if not list(DEPLOY.glob(f"{name}*"))] == []
