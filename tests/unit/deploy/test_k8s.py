"""deploy/k8s can't be applied here; so all that it names must exist, and no container may do more than it must.

The plain manifests are what the chart renders; where Helm is, other values are rendered, too.
"""

import re
import shutil
import subprocess
from typing import Any

import pytest
import typer
import yaml
from opentelemetry.sdk import environment_variables

from services.operator_cli.main import app
from shared.runtime.probes import side_app
from shared.settings import SECRETS, Settings, load_settings
from shared.version import VERSION
from tests.docs.manifests import CHART, FILES, FOLDER, first_line
from tests.unit.deploy.files import services, stages

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
WORKERS = ("embed-worker", "ingest-worker")
OF_TRACES = {name for name in vars(environment_variables) if name.startswith("OTEL_")}
README = (FOLDER / "README.md").read_text("utf-8")
[SIGN_IN] = (yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL))
OTHER_VALUES = {  # for Helm: what the defaults leave out
    "signed in and traced": SIGN_IN,
    "a volume": {
        "settings": {"SLUICE_BLOBS": "file:/blobs", "SLUICE_LOG": "kafka://user@kafka:9092"},
        "blobsClaim": "blobs",
        "bucketSecret": "",
        "secrets": ["SLUICE_QDRANT_API_KEY", "SLUICE_LOG_PASSWORD"],
        "pullSecrets": ["registry"],
    },
    "scaled": {
        "keda": {"enabled": True},
        "secrets": [],
        "apiSettings": {"SLUICE_DRAIN": 10, "SLUICE_MAX_BODY": 20_000_000},
    },
    "closed": {
        "network": {
            "callers": [{"namespaceSelector": {"matchLabels": {"name": "web"}}}],
            "watchers": [{"ipBlock": {"cidr": "10.1.0.0/16"}}],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}, {"ports": [{"protocol": "UDP", "port": 53}]}],
        },
        "serviceAccount": "sluice",
    },
}


def plain(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((FOLDER / name).read_text("utf-8")) if each]


OBJECTS = plain("sluice.yaml")


def pods(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the templates of pods, by the command that they run."""
    found = [each["spec"]["template"] for each in objects if "template" in each.get("spec", {})]
    return {each["metadata"]["labels"]["app.kubernetes.io/component"]: each for each in found}


PODS = pods(OBJECTS)
each_pod = pytest.mark.parametrize("name", ["init", "query-api", *WORKERS])


def container(name: str, among: dict[str, Any] = PODS) -> dict[str, Any]:
    [only] = among[name]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


@pytest.mark.parametrize("name", FILES)
def test_the_plain_manifests_are_what_the_chart_renders(name: str) -> None:
    first, *_ = (FOLDER / name).read_text("utf-8").splitlines()

    assert first == first_line(), "make manifests"


def test_the_chart_has_the_product_s_version_and_the_limits_of_compose() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    limits = {name: pod["resources"]["limits"]["memory"] for name, pod in VALUES["pods"].items()}
    composed = services({"KAFKA_PASSWORD": "x", "QDRANT_API_KEY": "x", "SLUICE_API_KEYS": "x"})

    assert (chart["version"], chart["appVersion"], VALUES["image"]) == (VERSION, VERSION, f"sluice:{VERSION}")
    assert limits == {name: f"{composed[name]['mem_limit'].upper()}i" for name in limits}
    assert VALUES["keda"]["most"] == Settings().partitions


def check_commands_variables_and_parts(among: dict[str, Any], monkeypatch: pytest.MonkeyPatch, folder: Any) -> None:
    commands = typer.main.get_command(app)
    assert isinstance(commands, typer.core.TyperGroup)
    for name in among:
        with monkeypatch.context() as patch:
            for variable, value in {each["name"]: each["value"] for each in container(name, among)["env"]}.items():
                if variable.endswith("_FILE"):
                    setting = variable.removesuffix("_FILE")
                    assert setting.removeprefix("SLUICE_").lower() in SECRETS
                    assert value == f"/secrets/{setting}"
                    (folder / setting).write_text("a-long-enough-key:default:query")
                    patch.setenv(variable, str(folder / setting))
                else:
                    assert variable.removeprefix("SLUICE_").lower() in Settings.model_fields or variable in OF_TRACES
                    patch.setenv(variable, value)

            settings = load_settings()

        assert container(name, among)["args"] == [name]
        assert name in commands.commands
        assert not settings.keeps_data, "there is no volume for it"
        ports = {each["name"]: each["containerPort"] for each in container(name, among).get("ports", [])}
        assert ports == {
            "query-api": {"http": settings.port, "side": settings.side_port},
            "init": {},
        }.get(name, {"side": settings.side_port})


def test_sign_in_and_traces_need_only_what_exists(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    assert SIGN_IN.keys() <= VALUES.keys()
    told = VALUES["settings"] | VALUES["apiSettings"] | SIGN_IN["settings"] | SIGN_IN["apiSettings"]
    (tmp_path / "secret").write_text("a-long-enough-key:default:query")
    for name, value in told.items():
        assert name.removeprefix("SLUICE_").lower() in Settings.model_fields or name in OF_TRACES
        monkeypatch.setenv(name, value)
    for name in (*VALUES["secrets"], *SIGN_IN["apiSecrets"]):
        assert name.removeprefix("SLUICE_").lower() in SECRETS
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / "secret"))

    settings = load_settings()

    assert settings.oidc_secret.get_secret_value() == "a-long-enough-key:default:query"
    assert set(VALUES["apiSecrets"]) < set(SIGN_IN["apiSecrets"]), "a list of values replaces the chart's"


def test_every_command_variable_and_part_exists(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    check_commands_variables_and_parts(PODS, monkeypatch, tmp_path)


@each_pod
def test_each_pod_has_its_secrets_and_no_others(name: str) -> None:
    mounted = {
        item["key"]
        for volume in PODS[name]["spec"]["volumes"]
        if volume["name"] == "secrets"
        for item in volume["secret"]["items"]
    }
    told = {
        secret: set(re.findall(r"from-literal=(\w+)=", line))
        for secret, line in re.findall(r"secret generic (\S+) (.*)", README)
    }

    assert mounted == {*VALUES["secrets"], *(VALUES["apiSecrets"] if name == "query-api" else ())}
    assert mounted == {each["name"].removesuffix("_FILE") for each in container(name)["env"] if "_FILE" in each["name"]}
    assert container(name)["envFrom"] == [{"secretRef": {"name": VALUES["bucketSecret"]}}]
    assert told == {
        VALUES["secret"]: {*VALUES["secrets"], *VALUES["apiSecrets"]},
        VALUES["bucketSecret"]: {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
    }


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
    mounts = [(each["mountPath"], each.get("readOnly", False)) for each in container(name)["volumeMounts"]]
    assert mounts == [("/tmp", False), ("/secrets", True)]


@pytest.mark.parametrize("name", ["query-api", *WORKERS])
def test_every_probe_asks_a_path_of_the_side_port(name: str) -> None:
    probes = {kind: each["httpGet"] for kind, each in container(name).items() if kind.endswith("Probe")}
    paths = {path for route in side_app(None).routes for path in [route.path]}  # type: ignore[arg-type]

    assert {each["port"] for each in probes.values()} == {"side"}
    assert {each["path"] for each in probes.values()} <= paths
    assert probes["readinessProbe"]["path"] == "/readyz"
    assert probes["livenessProbe"]["path"] == "/livez", "a part that is down restarts nothing"


def check_selectors(objects: list[dict[str, Any]]) -> None:
    labels = [each["metadata"]["labels"].items() for each in pods(objects).values()]
    for each in objects:
        spec = each.get("spec", {})
        wanted = spec.get("podSelector", spec.get("selector", {}))
        wanted = wanted.get("matchLabels", wanted)
        assert not wanted or any(wanted.items() <= given for given in labels), each["metadata"]["name"]


def test_whatever_selects_pods_selects_some() -> None:
    check_selectors(OBJECTS)
    budgets = [each["metadata"]["name"] for each in OBJECTS if each["kind"] == "PodDisruptionBudget"]
    assert sorted(budgets) == sorted({"query-api", *WORKERS})


def test_the_scaler_follows_the_api_s_figure_of_each_worker_s_role() -> None:
    scaled = plain("keda.yaml")
    [service] = [each for each in OBJECTS if each["kind"] == "Service"]

    assert {each["spec"]["scaleTargetRef"]["name"]: each["spec"]["minReplicaCount"] for each in scaled} == {
        "embed-worker": 0,
        "ingest-worker": 1,
    }
    for each in scaled:
        [trigger] = each["spec"]["triggers"]
        assert trigger["metadata"]["valueLocation"] == f'sluice_backlog{{role="{each["metadata"]["name"]}"}}'
        name, port = service["metadata"]["name"], service["spec"]["ports"][0]["port"]
        assert trigger["metadata"]["url"] == f"http://{name}.default:{port}/metrics"


@pytest.mark.skipif(shutil.which("helm") is None, reason="Helm is not installed")
@pytest.mark.parametrize("values", OTHER_VALUES.values(), ids=OTHER_VALUES)
def test_what_other_values_render_names_only_what_exists(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    command = ["helm", "template", "sluice", str(CHART), "-f", str(tmp_path / "values.yaml")]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    objects = [each for each in yaml.safe_load_all(made) if each]

    check_commands_variables_and_parts(pods(objects), monkeypatch, tmp_path)
    check_selectors(objects)
    kinds = [each["kind"] for each in objects]
    assert kinds.count("ScaledObject") == (2 if "keda" in values else 0)
    assert kinds.count("NetworkPolicy") == (3 if "network" in values else 2)
