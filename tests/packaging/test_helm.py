"""The Helm chart: with its defaults the objects of packaging/kubernetes, with values what they say, all valid."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from go_programs import BUILD_SECONDS, go_program
from servers import ROOT

from proxy.config import load

pytestmark = [pytest.mark.long, pytest.mark.timeout(BUILD_SECONDS)]  # Helm is built once

VERSION = "3.19.5"
CHART, PLAIN = ROOT / "packaging/helm/queuegate", ROOT / "packaging/kubernetes"
RELEASE = "queuegate"
OLDEST = "1.27.0"
"""The first Kubernetes that docs/releases.md lists."""
OF_HELM = {"app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart"}
Manifest = dict[str, Any]
Objects = dict[tuple[str, str], Manifest]

SECRET = {"backend": "mysql://queuegate:it's \"a: secret@db:3306/shop", "peersSecret": "s3"}
EVERYTHING: Manifest = {
    "image": {"repository": "registry.example.com/queuegate", "digest": "sha256:" + "0" * 64, "pullPolicy": "Always"},
    "imagePullSecrets": ["registry"],
    "name": "orders-proxy",
    "replicas": 5,
    "secret": SECRET,
    "config": {
        "wait_for_backend": "5m",
        "tls": {"mode": "required", "certificate": "/tls/tls.crt", "key": "/tls/tls.key"},
        "limits": {"max_connections": 2000},
        "console": {"listen": "0.0.0.0:8307", "behind_proxy": True, "public_url": "https://queue.example.com"},
    },
    "resources": {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
    "terminationGracePeriodSeconds": 90,
    "podAnnotations": {"example.com/team": "orders"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "queue", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]
            }
        }
    },
    "extraVolumes": [{"name": "tls", "secret": {"secretName": "queuegate-tls", "defaultMode": 0o440}}],
    "extraVolumeMounts": [{"name": "tls", "mountPath": "/tls", "readOnly": True}],
    "service": {"type": "LoadBalancer", "annotations": {"example.com/internal": "true"}},
    "networkPolicy": {
        "clients": [{"podSelector": {"matchLabels": {"app": "shop"}}}],
        "extra": [{"from": [{"podSelector": {"matchLabels": {"app": "ingress"}}}], "ports": [{"port": 8307}]}],
    },
}


@pytest.fixture(scope="module")
def helm() -> Path:
    too_old = "Go is too old to build Helm (1.21 or later does): the chart is NOT tested"
    return go_program("helm", "helm.sh/helm/v3/cmd/helm", VERSION, too_old=too_old, optimised=False)


def run(
    helm: Path, folder: Path, values: Manifest, command: str = "template", cluster: str = OLDEST
) -> subprocess.CompletedProcess[str]:
    """Helm, for a cluster of that version: it asks none."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    named = [RELEASE] if command == "template" else []
    line = [str(helm), command, *named, str(CHART), "--namespace", "queues", "--values", str(file)]
    line += ["--kube-version", cluster]
    home = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}  # no repositories and plugins of whoever runs this
    return subprocess.run(line, env=home, capture_output=True, text=True, timeout=60, check=False)


def rendered(helm: Path, folder: Path, **values: Any) -> Objects:
    """The objects by kind and name."""
    done = run(helm, folder, values)
    assert done.returncode == 0, done.stderr
    made = [each for each in yaml.safe_load_all(done.stdout) if each]
    objects = {(each["kind"], each["metadata"]["name"]): each for each in made}
    assert len(objects) == len(made)
    return objects


def refused(helm: Path, folder: Path, **values: Any) -> str:
    done = run(helm, folder, values)
    assert done.returncode != 0, done.stdout
    return done.stderr


def plain() -> Objects:
    """What `kubectl apply -k packaging/kubernetes` creates, but for the namespace, in which a chart is installed, and
    the Secret, which both leave to whoever installs them."""
    kustomization = yaml.safe_load((PLAIN / "kustomization.yaml").read_text())
    texts = [(PLAIN / name).read_text() for name in kustomization["resources"] if name != "namespace.yaml"]
    objects = [each for text in texts for each in yaml.safe_load_all(text)]
    objects.append(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "queuegate"},
            "data": {"config.yaml": (PLAIN / "config.yaml").read_text()},
        }
    )
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def without_helm(manifest: Manifest) -> Manifest:
    """Without what tells releases apart: Helm's labels, the namespace, the sums that start new pods; the configuration
    as what it means, and the image by its name alone."""
    made = _stripped(copy.deepcopy(manifest))
    made["metadata"].pop("namespace", None)
    made["metadata"].pop("labels", None)
    if made["kind"] == "ConfigMap":
        made["data"] = {name: yaml.safe_load(text) for name, text in made["data"].items()}
    if made["kind"] == "Deployment":
        made["spec"]["template"]["metadata"].pop("annotations", None)
        (container,) = made["spec"]["template"]["spec"]["containers"]
        container["image"] = container["image"].partition(":")[0]
    return made


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stripped(each) for name, each in value.items() if name not in OF_HELM}
    return [_stripped(each) for each in value] if isinstance(value, list) else value


def container(objects: Objects, name: str = RELEASE) -> Manifest:
    (only,) = objects["Deployment", name]["spec"]["template"]["spec"]["containers"]
    made: Manifest = only
    return made


def config(objects: Objects, name: str = RELEASE) -> str:
    text: str = objects["ConfigMap", name]["data"]["config.yaml"]
    return text


def test_with_its_defaults_it_is_what_the_manifests_are(helm, tmp_path):
    chart, manifests = rendered(helm, tmp_path), plain()
    assert chart.keys() == manifests.keys()
    for name, manifest in manifests.items():
        assert without_helm(chart[name]) == without_helm(manifest), name
        labels = chart[name]["metadata"]["labels"]
        assert manifest["metadata"].get("labels", {}).items() <= labels.items() and labels.keys() >= OF_HELM
        assert chart[name]["metadata"]["namespace"] == "queues"


def test_its_versions_are_the_projects():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == project["version"]
    assert chart["description"] == project["description"]


@pytest.mark.parametrize("version", [OLDEST, None], ids=["oldest", "newest"])
@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_every_object_is_valid(helm, tmp_path, values, version):
    validator = pytest.importorskip("kubernetes_validate", reason="no kubernetes-validate: the schemas are NOT tested")
    for manifest in rendered(helm, tmp_path, **values).values():
        validator.validate(manifest, version or validator.latest_version(), strict=True)


def test_helm_itself_finds_nothing(helm, tmp_path):
    for values in ({}, EVERYTHING):
        done = run(helm, tmp_path, values, "lint")
        assert done.returncode == 0 and "[WARNING]" not in done.stdout, done.stdout


def test_the_pods_of_two_releases_are_told_apart(helm, tmp_path):
    for values, name in (({}, RELEASE), (EVERYTHING, "orders-proxy")):
        objects = rendered(helm, tmp_path, **values)
        pods = objects["Deployment", name]["spec"]["template"]["metadata"]["labels"]
        selectors = [
            objects["Deployment", name]["spec"]["selector"]["matchLabels"],
            objects["Service", name]["spec"]["selector"],
            objects["Service", f"{name}-admin"]["spec"]["selector"],
            objects["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"],
            objects["NetworkPolicy", name]["spec"]["podSelector"]["matchLabels"],
        ]
        assert pods["app.kubernetes.io/instance"] == RELEASE
        assert all(selector == pods for selector in selectors)


def test_every_value_is_in_what_is_rendered(helm, tmp_path):
    objects = rendered(helm, tmp_path, **EVERYTHING)
    assert {name for _, name in objects} == {"orders-proxy", "orders-proxy-admin"}
    deployment = objects["Deployment", "orders-proxy"]["spec"]
    pod = deployment["template"]["spec"]
    assert deployment["replicas"] == 5 and pod["terminationGracePeriodSeconds"] == 90
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert [pod[name] for name in ("nodeSelector", "tolerations", "affinity")] == [
        EVERYTHING[name] for name in ("nodeSelector", "tolerations", "affinity")
    ]
    only = container(objects, "orders-proxy")
    assert only["image"] == f"registry.example.com/queuegate@sha256:{'0' * 64}"
    assert only["imagePullPolicy"] == "Always" and only["resources"] == EVERYTHING["resources"]
    assert only["envFrom"] == [{"secretRef": {"name": "orders-proxy"}}]
    assert pod["volumes"][0]["configMap"]["name"] == pod["serviceAccountName"] == "orders-proxy"
    assert EVERYTHING["extraVolumes"] == pod["volumes"][2:]
    assert EVERYTHING["extraVolumeMounts"] == only["volumeMounts"][2:]
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"], "its files are read by this group"
    service = objects["Service", "orders-proxy"]
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["metadata"]["annotations"] == {"example.com/internal": "true"}
    clients, _, _, extra = objects["NetworkPolicy", "orders-proxy"]["spec"]["ingress"]
    assert clients["from"] == EVERYTHING["networkPolicy"]["clients"] and [extra] == EVERYTHING["networkPolicy"]["extra"]
    assert deployment["template"]["metadata"]["annotations"]["example.com/team"] == "orders"


def test_the_secret_is_theirs_or_the_charts_own(helm, tmp_path):
    theirs = rendered(helm, tmp_path, secret={"existing": "database"})
    assert container(theirs)["envFrom"] == [{"secretRef": {"name": "database"}}]
    assert not [kind for kind, _ in theirs if kind == "Secret"]
    own = rendered(helm, tmp_path, secret=SECRET)["Secret", RELEASE]
    assert own["stringData"] == {"QUEUEGATE_BACKEND": SECRET["backend"], "QUEUEGATE_PEERS_SECRET": "s3"}
    names = set((PLAIN / "secret.env.example").read_text().split()) & {f"{name}=" for name in own["stringData"]}
    assert names, "the variables are those of the plain manifests"
    assert "give one or the other" in refused(helm, tmp_path, secret={**SECRET, "existing": "database"})
    assert "made with secret.backend" in refused(helm, tmp_path, secret={"peersSecret": "s3"})


def test_a_change_of_configuration_or_secret_starts_new_pods(helm, tmp_path):
    def sums(**values: Any) -> dict[str, str]:
        template = rendered(helm, tmp_path, **values)["Deployment", RELEASE]["spec"]["template"]
        made: dict[str, str] = template["metadata"]["annotations"]
        return made

    before, after = sums(secret=SECRET), sums(secret={**SECRET, "peersSecret": "s4"})
    assert before["checksum/config"] == after["checksum/config"]
    assert before["checksum/secret"] != after["checksum/secret"]
    assert sums(config={"shutdown_grace": "30s"}) != sums()


def test_the_console_is_on_loopback_or_off_or_behind_a_proxy_with_tls(helm, tmp_path):
    def console(**values: Any) -> Any:
        (tmp_path / "config.yaml").write_text(config(rendered(helm, tmp_path, **values)))
        return load(tmp_path / "config.yaml", environment={}).console

    listen = console().listen
    assert listen is not None and listen.loopback and listen.port == 8307
    assert console(console={"enabled": False}).listen is None
    behind = console(config={"console": EVERYTHING["config"]["console"]})
    assert str(behind.listen) == "0.0.0.0:8307" and behind.behind_proxy
    said = refused(helm, tmp_path, console={"enabled": False}, config={"console": {"behind_proxy": True}})
    assert "config.console needs console.enabled" in said


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [("60s", 60), (300, 300), ("5m", 300), ("1h", 3600), ("500ms", 1), (" 2 M ", 120), ("1.5m", 90), (0, 0)],
)
def test_the_startup_probe_outlasts_the_wait_for_the_backend(helm, tmp_path, wait, seconds):
    probe = container(rendered(helm, tmp_path, config={"wait_for_backend": wait}))["startupProbe"]
    assert seconds + 60 <= probe["periodSeconds"] * probe["failureThreshold"] <= seconds + 62


def test_the_example_of_the_page_renders(helm, tmp_path):
    """What docs/install.md has of TLS: each file of the configuration is in a volume, which is there."""
    (block,) = re.findall(r"```yaml\n(extraVolumes:.*?)```", (ROOT / "docs/install.md").read_text(), re.DOTALL)
    objects = rendered(helm, tmp_path, **yaml.safe_load(block))
    mounted = {mount["name"]: mount["mountPath"] for mount in container(objects)["volumeMounts"]}
    volumes = {each["name"]: each for each in objects["Deployment", RELEASE]["spec"]["template"]["spec"]["volumes"]}
    assert mounted.keys() == volumes.keys() and volumes["tls"]["secret"]["defaultMode"] == 0o440
    tls = yaml.safe_load(config(objects))["tls"]
    assert {str(Path(tls[name]).parent) for name in ("certificate", "key")} == {mounted["tls"]}


def test_keys_of_the_configuration_are_added(helm, tmp_path):
    (tmp_path / "config.yaml").write_text(
        config(
            rendered(
                helm, tmp_path, config={"limits": {"max_connections": 700}, "admin": {}, "log": {"level": "debug"}}
            )
        )
    )
    made = load(tmp_path / "config.yaml", environment={})
    assert made.limits.max_connections == 700 and made.log.level.value == "debug" and made.log.format.value == "json"
    assert made.admin.listen is not None and made.admin.listen.port == 9307 and made.workers == 1


@pytest.mark.parametrize("enabled", [True, False])
def test_peers_as_true_or_false(helm: Path, tmp_path: Path, enabled: bool) -> None:
    objects = rendered(helm, tmp_path, config={"peers": enabled})
    config = yaml.safe_load(objects["ConfigMap", RELEASE]["data"]["config.yaml"])
    assert config["peers"] == {"enabled": enabled, "listen": "0.0.0.0:3308"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"config": {"listen": "0.0.0.0:3306"}}, "config.listen is set by the chart"),
        ({"config": {"workers": 2}}, "config.workers is set by the chart"),
        ({"config": {"backend": "mysql://a@b/c"}}, "config.backend is set by the chart"),
        ({"config": {"peers": {"listen": "0.0.0.0:1"}}}, "config.peers.listen is set by the chart"),
        ({"config": {"admin": {"listen": "0.0.0.0:1"}}}, "config.admin.listen is set by the chart"),
        ({"config": {"wait_for_backend": "soon"}}, "config.wait_for_backend: soon is not a duration"),
        ({"extraVolumes": [{"emptyDir": {}}]}, "extraVolumes"),
        ({"extraVolumeMounts": [{"name": "tls"}]}, "extraVolumeMounts"),
        ({"replicaCount": 2}, "replicaCount"),
        ({"replicas": 0}, "replicas"),
        ({"secret": {"backend": "sqlite:///queue.db"}}, "backend"),
        ({"image": {"digest": "sha256:1"}}, "digest"),
        ({"networkPolicy": {"clients": []}}, "clients"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_what_would_not_work_is_refused(helm, tmp_path, values, words):
    assert words in refused(helm, tmp_path, **values)


def test_a_cluster_that_is_too_old_is_refused(helm, tmp_path):
    done = run(helm, tmp_path, {}, cluster="1.26.9")
    assert done.returncode != 0 and "incompatible with Kubernetes v1.26.9" in done.stderr


def test_what_is_switched_off_is_left_out(helm, tmp_path):
    objects = rendered(helm, tmp_path, podDisruptionBudget={"enabled": False}, networkPolicy={"enabled": False})
    assert {kind for kind, _ in objects} == {"Deployment", "Service", "ServiceAccount", "ConfigMap"}
