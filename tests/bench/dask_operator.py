"""deploy/kubernetes/daskcluster.yaml against the Dask operator itself: its CRD, and what its controller makes of it.

    pip install dask-kubernetes && python -m tests.bench.dask_operator

Not in the test suite: dask-kubernetes brings four Kubernetes clients, which take half a minute to install.
"""

from __future__ import annotations

import importlib.resources
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml
from dask_kubernetes.operator.controller import controller

from tests.deploy.test_schemas import KUBERNETES

CRD = "operator/deployment/helm/dask-kubernetes-operator/crds/daskcluster.yaml"


def main() -> None:
    """Print what was checked; the first thing that does not fit is raised."""
    path = Path(__file__).parents[2] / "deploy" / "kubernetes" / "daskcluster.yaml"
    resource = yaml.safe_load(path.read_text())
    crd = yaml.load(importlib.resources.files("dask_kubernetes").joinpath(CRD).read_text(), yaml.CSafeLoader)
    (version,) = (version for version in crd["spec"]["versions"] if resource["apiVersion"].endswith(version["name"]))
    jsonschema.Draft202012Validator(version["schema"]["openAPIV3Schema"]).validate(resource)
    print(f"{path.name}: fits the operator's CRD")

    name, scheduler, worker = resource["metadata"]["name"], resource["spec"]["scheduler"], resource["spec"]["worker"]
    made = [
        controller.build_scheduler_deployment_spec(name, scheduler["spec"], {}, {}),
        controller.build_scheduler_service_spec(name, scheduler["service"], {}, {}),
        controller.build_worker_deployment_spec(f"{name}-default", name, name, "0", worker["spec"], {}, {}),
    ]
    for item in made:
        kubernetes_validate.validate(item, KUBERNETES, strict=True)
        print(f"{item['kind']} {item['metadata']['name']}: fits Kubernetes {KUBERNETES}")
        for container in item["spec"]["template"]["spec"]["containers"] if item["kind"] == "Deployment" else ():
            (address,) = (entry["value"] for entry in container["env"] if entry["name"] == "DASK_SCHEDULER_ADDRESS")
            assert address == f"tls://{made[1]['metadata']['name']}:8786", address
            print(f"  {container['name']} finds the scheduler at {address}")


if __name__ == "__main__":
    main()
