"""deploy/monitoring: rules and dashboard ask for what the product shows, and each alert has its section."""

import ast
import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from tests.unit.deploy.files import ROOT, raw_compose

FOLDER = ROOT / "deploy" / "monitoring"
README = (FOLDER / "README.md").read_text("utf-8")
ALERTS = yaml.safe_load((FOLDER / "alerts.yaml").read_text("utf-8"))["groups"][0]["rules"]
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
QUERIES = [
    *(part for rule in ALERTS for part in rule["expr"].split(" or ")),
    *(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]),
]
SERIES = {"Counter": ("_total",), "Histogram": ("_bucket", "_count", "_sum"), "Gauge": ("",), "Info": ("_info",)}
BY_PROMETHEUS = {"job", "instance", "le", "version"}


def shown() -> dict[str, set[str]]:
    """Return the series that the product's code declares, each with its labels."""
    found: dict[str, set[str]] = {}
    for folder in ("services", "shared"):
        for file in (ROOT / folder).rglob("*.py"):
            text = file.read_text("utf-8")
            if "prometheus_client" in text:
                for node in ast.walk(ast.parse(text)):
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                        declare(node, node.func.id.removesuffix("MetricFamily"), found)
    return found


def declare(call: ast.Call, kind: str, found: dict[str, set[str]]) -> None:
    name = call.args[0] if call.args else None
    if kind in SERIES and isinstance(name, ast.Constant) and isinstance(name.value, str):
        labels = [*call.args[2:], *(each.value for each in call.keywords if each.arg == "labels")]
        # A list in place, else one that has a name: its labels are those of the two figures of the log.
        known = [ast.literal_eval(each) if isinstance(each, ast.List) else LOG_LABELS for each in labels]
        for suffix in SERIES[kind]:
            found[f"{name.value}{suffix}"] = {label for each in known for label in each}


LOG_LABELS = ["role", "stage", "generation"]
SHOWN = shown()


@pytest.mark.parametrize("query", QUERIES)
def test_every_series_and_label_of_a_query_is_one_that_the_product_shows(query: str) -> None:
    series = set(re.findall(r"\b(sluice_\w+)", query))
    labels = {each.strip() for group in re.findall(r"by \(([^)]*)\)", query) for each in group.split(",")}
    labels |= set(re.findall(r"[{,]\s*(\w+)\s*[=!]", query))

    assert series <= SHOWN.keys()
    assert series or query.startswith(("up{", "absent(up{", "process_resident_memory_bytes"))
    for name in series:
        assert labels <= SHOWN[name] | BY_PROMETHEUS


def test_every_figure_of_the_product_has_a_panel() -> None:
    asked = {name for query in QUERIES for name in re.findall(r"\b(sluice_\w+)", query)}
    stems = {re.sub(r"_(?:bucket|count|sum)$", "", name) for name in SHOWN}

    assert stems - {re.sub(r"_(?:bucket|count|sum)$", "", name) for name in asked} == {
        "sluice_seconds_since_progress",
        "sluice_lag",
        "sluice_backlog",  # the sum of sluice_group_lag, for KEDA
    }


def test_each_alert_has_its_section_and_each_section_its_alert() -> None:
    sections = re.findall(r"^## (\w+)$", README, re.MULTILINE)

    assert sections == [rule["alert"] for rule in ALERTS]
    assert all(rule["annotations"]["summary"] for rule in ALERTS)


def test_the_scrape_configurations_find_what_kubernetes_and_compose_run() -> None:
    kubernetes, compose = (
        yaml.safe_load(each)["scrape_configs"] for each in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    )
    [pods], [containers] = kubernetes, compose
    [dns], [static] = containers["dns_sd_configs"], containers["static_configs"]
    manifests = (ROOT / "deploy" / "k8s" / "sluice.yaml").read_text("utf-8")
    annotated = {
        f"__meta_kubernetes_pod_annotation_{re.sub(r'[./]', '_', each)}"
        for each in re.findall(r"prometheus\.io/\w+", manifests)
    }

    assert pods["job_name"] == containers["job_name"] == re.findall(r'up{job="(\w+)"', ALERTS[0]["expr"])[0]
    assert {each["source_labels"][0] for each in pods["relabel_configs"]} == annotated
    every = raw_compose()["services"]
    assert {*dns["names"]} == {name for name in every if name.endswith("-worker")}
    assert {each.partition(":")[0] for each in static["targets"]} == {"query-api"} <= every.keys()
    assert str(dns["port"]) == every["ingest-worker"]["environment"]["SLUICE_SIDE_PORT"]


def test_the_panels_do_not_overlap_and_have_names_and_units() -> None:
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]}

    assert len(places) == len(DASHBOARD["panels"]) == len({panel["title"] for panel in DASHBOARD["panels"]})
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in DASHBOARD["panels"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")
def test_each_alert_fires_by_its_fault_and_none_without() -> None:
    checked = subprocess.run(
        ["promtool", "test", "rules", "alerts_test.yaml"], cwd=FOLDER, capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_is_tried_by_the_tests_of_the_rules() -> None:
    tried = (FOLDER / "alerts_test.yaml").read_text("utf-8")

    assert [rule["alert"] for rule in ALERTS if f'alertname="{rule["alert"]}"' not in tried] == []
    for name, labels in re.findall(r"series: '(\w+){([^}]*)}'", tried):
        assert set(re.findall(r"(\w+)=", labels)) <= {*SHOWN.get(name, ()), *BY_PROMETHEUS}
        assert name in SHOWN or name == "up"
