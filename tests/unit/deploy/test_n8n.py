"""The workflows of deploy/n8n can be imported, and none of them fails in silence."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from shared.topics import SUBMITTED
from tests.selection import CI_ONLY
from tests.unit.deploy.n8n import CREDENTIALS, README, WORKFLOWS, Node, behind, calls, workflow

# As n8n 2.8.4 has them; newer ones keep older versions of their nodes.
VERSIONS = {
    "n8n-nodes-base.manualTrigger": 1,
    "n8n-nodes-base.scheduleTrigger": 1.2,
    "n8n-nodes-base.webhook": 2,
    "n8n-nodes-base.formTrigger": 2.2,
    "n8n-nodes-base.gmailTrigger": 1.2,
    "n8n-nodes-base.googleDriveTrigger": 1,
    "n8n-nodes-base.googleDrive": 3,
    "n8n-nodes-base.set": 3.4,
    "n8n-nodes-base.code": 2,
    "n8n-nodes-base.readWriteFile": 1,
    "n8n-nodes-base.httpRequest": 4.2,
    "n8n-nodes-base.kafka": 1,
    "n8n-nodes-base.respondToWebhook": 1.1,
    "n8n-nodes-base.stopAndError": 1,
}
TRIGGERS = {"manualTrigger", "scheduleTrigger", "webhook", "formTrigger", "gmailTrigger", "googleDriveTrigger"}

every_workflow = pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)


def kind(node: Node) -> str:
    name: str = node["type"].removeprefix("n8n-nodes-base.")
    return name


@pytest.mark.feature(79)
def test_there_is_one_for_each_way() -> None:
    assert [file.stem for file in WORKFLOWS] == [
        "ask-sluice",
        "dead-letters-to-alert",
        "drive-to-sluice",
        "folder-to-sluice",
        "form-to-sluice",
        "gmail-to-sluice",
        "kafka-to-sluice",
        "urls-to-sluice",
        "webhook-to-sluice",
    ]


def test_importing_one_replaces_no_other() -> None:
    ids = [workflow(file)["id"] for file in WORKFLOWS]
    hooks = [node["webhookId"] for file in WORKFLOWS for node in workflow(file)["nodes"] if kind(node) == "webhook"]

    assert len(set(ids)) == len(ids)
    assert len(set(hooks)) == len(hooks) == 2


@every_workflow
def test_its_nodes_are_known_joined_and_reached(file: Path) -> None:
    content = workflow(file)
    nodes = {node["name"]: node for node in content["nodes"]}
    triggers = [name for name, node in nodes.items() if kind(node) in TRIGGERS]

    reached, waiting = set(triggers), list(triggers)
    while waiting:
        outputs = content["connections"].get(waiting.pop(), {}).get("main", [])
        ahead = {each["node"] for output in outputs for each in output} - reached
        reached |= ahead
        waiting += ahead

    assert content["settings"] == {"executionOrder": "v1"}
    assert content["active"] is False
    assert len(nodes) == len({node["id"] for node in nodes.values()}) == len(content["nodes"])
    assert {node["type"]: node["typeVersion"] for node in nodes.values()}.items() <= VERSIONS.items()
    assert triggers
    assert reached == nodes.keys()
    assert content["connections"].keys() <= nodes.keys()
    joints = [each for outputs in content["connections"].values() for output in outputs["main"] for each in output]
    assert {(each["type"], each["index"]) for each in joints} == {("main", 0)}


@pytest.mark.feature(81)
@every_workflow
def test_what_sluice_or_kafka_refuses_goes_where_it_is_told(file: Path) -> None:
    content = workflow(file)
    nodes = {node["name"]: node for node in content["nodes"]}
    asking = [node for node in nodes.values() if "credentials" in node and kind(node) not in TRIGGERS]

    assert asking
    for node in asking:
        assert node["onError"] == "continueErrorOutput"
        [told] = behind(content, node["name"], 1)
        assert "error" in json.dumps(nodes[told]["parameters"])
        [end] = behind(content, told) or [told]
        assert kind(nodes[end]) in {"stopAndError", "respondToWebhook"}
        if kind(node) == "httpRequest":
            [then] = behind(content, node["name"])
            assert "statusCode" in json.dumps(nodes[then]["parameters"])
            assert node["parameters"]["options"]["response"]["response"]["fullResponse"] is True


@pytest.mark.feature(81)
def test_documents_are_reported_by_status_and_chunk_count() -> None:
    for call in calls():
        if call.path.startswith("/rag/ingest"):
            content = workflow(next(file for file in WORKFLOWS if file.name == call.file))
            nodes = {node["name"]: node for node in content["nodes"]}
            [report] = behind(content, call.node)
            script = nodes[report]["parameters"]["jsCode"]
            assert "console.log" in script
            assert "status" in script
            assert "chunkCount" in script


@pytest.mark.parametrize(
    ("file", "name"),
    [(f"{each}-to-sluice", "Upload") for each in ("drive", "folder", "form", "gmail")] + [("urls-to-sluice", "Ingest")],
)
def test_a_list_goes_out_in_batches_and_one_refusal_stops_no_other(file: str, name: str) -> None:
    [content] = [workflow(each) for each in WORKFLOWS if each.stem == file]
    [node] = [each for each in content["nodes"] if each["name"] == name]
    options = node["parameters"]["options"]

    assert options["batching"]["batch"] == {"batchSize": 10, "batchInterval": 200}
    assert options["response"]["response"]["neverError"] is True
    assert "retryOnFail" not in node, "a retry sends every item again, and looks at the first alone"


@pytest.mark.parametrize(("file", "name"), [("webhook-to-sluice", "Ingest"), ("ask-sluice", "Ask")])
def test_a_single_item_is_tried_again(file: str, name: str) -> None:
    [content] = [workflow(each) for each in WORKFLOWS if each.stem == file]
    [node] = [each for each in content["nodes"] if each["name"] == name]

    assert node["retryOnFail"] is True
    assert "neverError" not in node["parameters"]["options"]["response"]["response"], "then nothing would be retried"


def ran(
    tmp_path: Path, file: str, name: str, items: list[Any], given: dict[str, Any], state: dict[str, Any] | None = None
) -> tuple[Any, str, Any]:
    """Return what the script of a node gives for its items, what it throws, and the workflow's static data after it."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    [content] = [workflow(each) for each in WORKFLOWS if each.stem == file]
    [code] = [each["parameters"]["jsCode"] for each in content["nodes"] if each["name"] == name]
    script = tmp_path / "run.js"
    script.write_text(
        f"const given = {json.dumps(given)}, items = {json.dumps(items)}, state = {json.dumps(state or {})};\n"
        "const $ = (name) => ({ first: () => given[name][0], all: () => given[name] });\n"
        "const $input = { all: () => items, first: () => items[0] }, $getWorkflowStaticData = () => state;\n"
        "const print = console.log; console.log = () => {};\n"
        f"let out = []; try {{ out = (() => {{ {code} }})(); }} catch (e) {{ console.error(e.message); }}\n"
        "print(JSON.stringify([out, state]));"
    )
    done = subprocess.run([node, str(script)], capture_output=True, text=True, timeout=60, check=True)
    out, after = json.loads(done.stdout)
    return out, done.stderr.strip(), after


def gone(tmp_path: Path, read: list[str], documents: list[str], **settings: object) -> tuple[list[str], str]:
    """Return what the script of the folder workflow would remove, and what it throws."""
    given = {
        "Settings": [{"json": {"source": "s", "removeGone": True, "confirm": 0, **settings}}],
        "Read the folder": [
            {"binary": {"data": {"directory": path.rpartition("/")[0], "fileName": path.rpartition("/")[2]}}}
            for path in read
        ],
    }
    items = [{"source": "s", "path": path} for path in documents]
    pages = [{"json": {"statusCode": 200, "body": {"items": part}}} for part in (items[:3], items[3:])]
    removed, why, _ = ran(tmp_path, "folder-to-sluice", "What is gone", pages, given)
    return [each["json"]["path"] for each in removed], why


FILES = [f"/share/{number}.md" for number in range(10)]


def test_a_file_that_is_gone_is_removed(tmp_path: Path) -> None:
    assert gone(tmp_path, FILES[2:], FILES) == (FILES[:2], "")


def test_what_looks_like_an_unmounted_share_removes_nothing(tmp_path: Path) -> None:
    removed, why = gone(tmp_path, [], FILES, confirm=len(FILES))

    assert removed == []
    assert "as if the folder were not mounted" in why


def test_more_than_a_fifth_goes_only_with_the_number(tmp_path: Path) -> None:
    removed, why = gone(tmp_path, FILES[3:], FILES)

    assert removed == []
    assert "3 of 10 documents of s have no file any more, more than 20 %" in why
    assert gone(tmp_path, FILES[3:], FILES, confirm=2)[0] == []
    assert gone(tmp_path, FILES[3:], FILES, confirm=3) == (FILES[:3], "")


def test_nothing_is_removed_where_that_is_turned_off(tmp_path: Path) -> None:
    assert gone(tmp_path, FILES[2:], FILES, removeGone=False) == ([], "")


def test_one_refused_file_does_not_end_the_clean_up_and_fails_the_run_after_it(tmp_path: Path) -> None:
    [content] = [workflow(each) for each in WORKFLOWS if each.stem == "folder-to-sluice"]
    nodes = {node["name"]: node for node in content["nodes"]}
    taken = {"json": {"statusCode": 200, "body": {"status": "created", "chunkCount": 2, "documentId": "d"}}}
    bad = {"json": {"statusCode": 422, "body": {"detail": "e.html holds no readable text"}}}

    told, why, _ = ran(tmp_path, "folder-to-sluice", "Report", [taken, bad], {})
    _, refused, _ = ran(tmp_path, "folder-to-sluice", "What was refused", told, {})
    clean, *_ = ran(tmp_path, "folder-to-sluice", "What was refused", told[:1], {})

    assert (why, [each["json"]["status"] for each in told]) == ("", ["created", "refused"])
    assert refused == "1 of 2 refused. 422 – e.html holds no readable text"
    assert clean == told[:1]
    # n8n runs the branches of a node from the uppermost down.
    assert behind(content, "Report") == ["Documents of the source", "What was refused"]
    heights = [nodes[name]["position"][1] for name in behind(content, "Report")]
    assert heights == sorted(heights)


@CI_ONLY
def test_a_document_is_told_once_and_again_only_after_it_was_settled(tmp_path: Path) -> None:
    def page(*letters: dict[str, Any]) -> dict[str, Any]:
        return {"json": {"statusCode": 200, "body": {"total": len(letters), "items": [*letters]}}}

    bad = {"id": "1", "documentId": "d", "source": "s", "path": "bad.pdf", "error": "no text", "stage": "ingest"}
    also = {**bad, "id": "2", "stage": "embed"}
    foreign = {"id": "3", "error": "no document", "stage": "ingest"}
    news, state = [], {"told": ["settled long ago"]}
    for pages in ([page(bad), page(also)], [page(bad, foreign)], [page(bad, foreign)], [page(foreign)], [page(bad)]):
        out, why, state = ran(tmp_path, "dead-letters-to-alert", "What to tell", pages, {}, state)
        assert why == ""
        if out:
            *_, state = ran(tmp_path, "dead-letters-to-alert", "Remember", out, {"What to tell": out}, state)
        news.append([line.partition(":")[0] for each in out for line in each["json"]["text"].splitlines()[1:]])

    assert news == [["s/bad.pdf"], ["/3"], [], [], ["s/bad.pdf"]]


@pytest.mark.parametrize(
    ("file", "trigger", "path"),
    [("form", "Form", "a.pdf"), ("gmail", "Mail", "m1/a.pdf"), ("drive", "Download", "m1")],
)
def test_each_file_of_an_item_is_an_item_of_its_own(tmp_path: Path, file: str, trigger: str, path: str) -> None:
    binary = {"attachment_0": {"fileName": "a.pdf"}, "attachment_1": {"fileName": "b.docx"}}
    given = {trigger: [{"json": {"id": "m1"}, "binary": binary}, {"json": {"id": "m2"}}]}

    found, why, _ = ran(tmp_path, f"{file}-to-sluice", "One item a file", [], given)

    assert why == ""
    assert [each["binary"]["data"]["fileName"] for each in found] == ["a.pdf", "b.docx"]
    assert found[0]["json"] == {"path": path, "title": "a.pdf"}


def test_kafka_is_asked_to_confirm_and_keeps_a_document_s_records_in_order() -> None:
    [node] = [node for file in WORKFLOWS for node in workflow(file)["nodes"] if kind(node) == "kafka"]
    parameters = node["parameters"]

    assert parameters["topic"] == SUBMITTED
    assert parameters["options"]["acks"] is True
    assert parameters["useKey"] is True
    assert parameters["key"] == "={{ $json.source + '/' + $json.path }}"


def test_credentials_are_named_and_hold_nothing_secret() -> None:
    known = {(each["id"], each["name"], each["type"]) for each in json.loads(CREDENTIALS.read_text("utf-8"))}
    used = {
        (each["id"], each["name"], type_)
        for file in WORKFLOWS
        for node in workflow(file)["nodes"]
        for type_, each in node.get("credentials", {}).items()
    }

    assert used == known
    assert "sluice keys new" in CREDENTIALS.read_text("utf-8")


def test_the_readme_tells_of_each_file() -> None:
    text = README.read_text("utf-8")

    assert [file.name for file in [*WORKFLOWS, CREDENTIALS] if file.name not in text] == []
