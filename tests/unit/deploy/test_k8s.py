"""deploy/k8s can't be applied here; so all that it names must exist, and no container may do more than it must."""

import re
from typing import Any

import pytest
import typer
import yaml

from services.operator_cli.main import app
from shared.runtime.probes import side_app
from shared.settings import Settings, load_settings
from shared.version import VERSION
from tests.unit.deploy.files import ROOT, stages

FOLDER = ROOT / "deploy" / "k8s"
OBJECTS: list[dict[str, Any]] = [*yaml.safe_load_all((FOLDER / "sluice.yaml").read_text("utf-8"))]
[CONFIG] = [each["data"] for each in OBJECTS if each["kind"] == "ConfigMap"]
PODS = {each["metadata"]["name"]: each["spec"]["template"] for each in OBJECTS if "template" in each.get("spec", {})}
SECRETS = {
    "sluice": {"SLUICE_QDRANT_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
    "sluice-keys": {"SLUICE_API_KEYS"},
}

each_pod = pytest.mark.parametrize("name", PODS)


def container(name: str) -> dict[str, Any]:
    [only] = PODS[name]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


@each_pod
def test_every_command_variable_and_part_exists(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = typer.main.get_command(app)
    assert isinstance(commands, typer.core.TyperGroup)
    own = {each["name"]: each["value"] for each in container(name).get("env", [])}
    keys = {"SLUICE_API_KEYS": "a-long-enough-key:default:query"} if name == "query-api" else {}
    for variable, value in {**CONFIG, **own, **keys}.items():
        assert variable.removeprefix("SLUICE_").lower() in Settings.model_fields
        monkeypatch.setenv(variable, value)

    settings = load_settings()

    assert container(name)["args"] == [name]
    assert name in commands.commands
    assert not settings.keeps_data, "there is no volume for it"
    ports = {each["name"]: each["containerPort"] for each in container(name).get("ports", [])}
    assert ports == {
        "query-api": {"http": settings.port, "side": settings.side_port},
        "init": {},
    }.get(name, {"side": settings.side_port})


@each_pod
def test_each_pod_has_its_secrets_and_no_others(name: str) -> None:
    given = {each["secretRef"]["name"] for each in container(name)["envFrom"] if "secretRef" in each}
    told = dict(
        re.findall(r"secret generic (\S+) (.*)", (FOLDER / "README.md").read_text("utf-8")),
    )

    assert given == ({"sluice", "sluice-keys"} if name == "query-api" else {"sluice"})
    assert {each: set(re.findall(r"from-literal=(\w+)=", line)) for each, line in told.items()} == SECRETS


@each_pod
def test_no_container_can_do_more_than_it_must(name: str) -> None:
    spec, user = PODS[name]["spec"], next(step.rest for step in stages()[-1] if step.name == "USER")

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert f"{spec['securityContext']['runAsUser']}:{spec['securityContext']['runAsGroup']}" == user
    assert spec["automountServiceAccountToken"] is False
    assert container(name)["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container(name)["resources"].keys() == {"requests", "limits"}
    assert container(name)["image"] == f"sluice:{VERSION}"
    assert [each["mountPath"] for each in container(name)["volumeMounts"]] == ["/tmp"]


@pytest.mark.parametrize("name", [name for name in PODS if name != "init"])
def test_every_probe_asks_a_path_of_the_side_port(name: str) -> None:
    probes = {kind: each["httpGet"] for kind, each in container(name).items() if kind.endswith("Probe")}
    paths = {path for route in side_app(None).routes for path in [route.path]}  # type: ignore[arg-type]

    assert {each["port"] for each in probes.values()} == {"side"}
    assert {each["path"] for each in probes.values()} <= paths
    assert probes["readinessProbe"]["path"] == "/readyz"
    assert probes["livenessProbe"]["path"] == "/livez", "a part that is down restarts nothing"


def test_whatever_selects_pods_selects_some() -> None:
    labels = [each["metadata"]["labels"].items() for each in PODS.values()]
    for each in OBJECTS:
        spec = each.get("spec", {})
        wanted = spec.get("podSelector", spec.get("selector", {}))
        wanted = wanted.get("matchLabels", wanted)
        assert not wanted or any(wanted.items() <= given for given in labels), each["metadata"]["name"]


def test_the_scaler_follows_a_figure_of_each_worker_s_role() -> None:
    scaled = [*yaml.safe_load_all((FOLDER / "keda.yaml").read_text("utf-8"))]

    assert {each["spec"]["scaleTargetRef"]["name"]: each["spec"]["minReplicaCount"] for each in scaled} == {
        "embed-worker": 0,
        "ingest-worker": 1,
    }
    for each in scaled:
        [trigger] = each["spec"]["triggers"]
        assert f'sluice_group_lag{{role="{each["metadata"]["name"]}"}}' in trigger["metadata"]["query"]
        assert trigger["metadata"]["ignoreNullValues"] == "false", "a figure that is missing scales nothing down"
