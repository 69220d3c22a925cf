"""The manifests for Kubernetes: valid by its schemas, restricted as they say, of one mind with the configuration."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from dockerfile import stages
from servers import ROOT

from proxy.config import load
from queuegate.process import _LATE_SECONDS

FOLDER = ROOT / "packaging/kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
RESOURCES: list[dict[str, Any]] = [
    document for name in KUSTOMIZATION["resources"] for document in yaml.safe_load_all((FOLDER / name).read_text())
]
CONFIG = load(FOLDER / "config.yaml")


def resource(kind: str, name: str = "queuegate") -> dict[str, Any]:
    (found,) = (each for each in RESOURCES if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


POD: dict[str, Any] = resource("Deployment")["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
PORTS = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}


@pytest.mark.parametrize("version", ["1.27.0", None], ids=["oldest", "newest"])
@pytest.mark.parametrize("manifest", RESOURCES, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_every_manifest_is_valid(manifest, version):
    validator = pytest.importorskip("kubernetes_validate", reason="no kubernetes-validate: the schemas are NOT tested")
    validator.validate(manifest, version or validator.latest_version(), strict=True)


def test_the_kustomization_names_every_file():
    others = {"kustomization.yaml", "config.yaml"}
    assert set(KUSTOMIZATION["resources"]) == {path.name for path in FOLDER.glob("*.yaml")} - others
    (config,), (secret,) = KUSTOMIZATION["configMapGenerator"], KUSTOMIZATION["secretGenerator"]
    assert (FOLDER / config["files"][0]).exists()
    assert (FOLDER / f"{secret['envs'][0]}.example").exists()
    assert {config["name"], secret["name"]} == {"queuegate"}
    assert POD["volumes"][0]["configMap"]["name"] == CONTAINER["envFrom"][0]["secretRef"]["name"] == "queuegate"


def test_the_secret_holds_what_the_program_reads():
    names = set(re.findall(r"(?m)^(\w+)=", (FOLDER / "secret.env.example").read_text()))
    assert names == {"QUEUEGATE_BACKEND", "QUEUEGATE_PEERS_SECRET"}


def test_the_pods_are_restricted():
    """As the Pod Security Standard of that name has it, which the namespace enforces."""
    assert resource("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pod, container = POD["securityContext"], CONTAINER["securityContext"]
    assert pod["runAsNonRoot"] and pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["capabilities"] == {"drop": ["ALL"]} and not container["allowPrivilegeEscalation"]
    assert container["readOnlyRootFilesystem"] and not POD["automountServiceAccountToken"]
    image = stages(ROOT / "packaging/docker/Dockerfile")[-1]
    assert image.one("USER") == f"{pod['runAsUser']}:{pod['runAsGroup']}"
    assert {mount["mountPath"] for mount in CONTAINER["volumeMounts"]} == {"/etc/queuegate", image.one("WORKDIR")}
    assert CONTAINER["resources"].keys() == {"requests", "limits"}


def test_ports_are_those_of_the_configuration():
    assert CONFIG.peers.listen is not None and CONFIG.admin.listen is not None
    assert {"mysql": CONFIG.listen.port, "peers": CONFIG.peers.listen.port, "admin": CONFIG.admin.listen.port} == PORTS
    for service in (resource("Service"), resource("Service", "queuegate-admin")):
        (port,) = service["spec"]["ports"]
        assert port["port"] == PORTS[port["targetPort"]]
        assert service["spec"]["selector"] == resource("Deployment")["spec"]["selector"]["matchLabels"]
    opened = {port["port"] for rule in resource("NetworkPolicy")["spec"]["ingress"] for port in rule["ports"]}
    assert opened == PORTS.keys()
    assert all("from" in rule for rule in resource("NetworkPolicy")["spec"]["ingress"]), "nothing is open to all"
    assert CONFIG.workers == 1, "each worker has a peers' port of its own, and the manifests name one"


def test_the_console_is_for_who_may_forward_a_port():
    """`kubectl port-forward` reaches the pod's loopback address; nothing else does, so it needs no certificate."""
    listen = CONFIG.console.listen
    assert listen is not None and listen.loopback and listen.port == 8307
    assert listen.port not in PORTS.values()


def test_probes_ask_the_admin_port():
    probes = {name: CONTAINER[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probes == {
        "startupProbe": {"path": "/healthz", "port": "admin"},
        "livenessProbe": {"path": "/healthz", "port": "admin"},
        "readinessProbe": {"path": "/readyz", "port": "admin"},
    }
    startup = CONTAINER["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] > CONFIG.wait_for_backend


def test_an_orderly_end_has_the_time_that_it_needs():
    pause = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    assert POD["terminationGracePeriodSeconds"] > pause + CONFIG.shutdown_grace + _LATE_SECONDS


def test_a_disruption_takes_one_of_several():
    deployment = resource("Deployment")["spec"]
    assert deployment["replicas"] > 1 and deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    budget = resource("PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1 and budget["selector"] == deployment["selector"]
