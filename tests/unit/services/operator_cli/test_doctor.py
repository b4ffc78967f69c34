import itertools
import json
import platform
import socket
import sys
from pathlib import Path

import pytest

from services.operator_cli import doctor
from services.operator_cli.main import main
from shared.settings import Settings
from tests.servers.s3 import Bucket
from tests.tiny_models import mean_model
from tests.unit.services.operator_cli.conftest import Wire, free_port


def test_a_folder_that_is_not_there_yet_is_fine_and_a_file_in_its_place_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert doctor.folder(tmp_path / "a" / "b").verdict == "ok"
    refused = doctor.folder(tmp_path / "file")

    assert refused.verdict == "failed"
    assert "is not a folder" in refused.found


def test_a_process_that_keeps_nothing_in_the_folder_is_not_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "DATA": "/proc/nothing",
        "LOG": "kafka://k:9092",
        "STORE": "qdrant+http://q:6333",
        "BLOBS": "file:/blobs",
        "PORT": str(free_port()),
    }.items():
        monkeypatch.setenv(f"SLUICE_{name}", value)

    # The checks come one by one: no server is asked before the log's.
    found = {check.name for check in itertools.takewhile(lambda check: check.name != "log", doctor.examine())}

    assert "server" in found
    assert not found & {"folder", "disk"}


def test_space_is_measured_where_the_folder_will_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.space(tmp_path / "later").verdict in ("ok", "warning")

    monkeypatch.setattr(doctor, "SPACE_NEEDED", 10**18)

    assert doctor.space(tmp_path / "later").fix is not None


def test_a_free_port_is_fine() -> None:
    port = free_port()

    assert doctor.door(Settings(port=port)).found == f"not running; port {port} is free for `sluice serve`"


def test_a_port_taken_by_something_silent_is_told_with_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as silent:  # bound, not listening: refuses connections, and the port can't be had
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        monkeypatch.setenv("SLUICE_PORT", str(port))

        check = doctor.door(Settings(port=port))

    assert check.verdict == "failed"
    assert f"port {port} is taken" in check.found
    assert check.fix == f"set SLUICE_PORT to another, such as {port + 1}"


def test_an_address_of_no_machine_is_told_by_the_system_s_reason() -> None:
    check = doctor.door(Settings(host="fe80::1%nosuch", port=1))

    assert (check.verdict, check.fix) == ("failed", "set them to an address of this machine")
    assert "can't be listened on" in check.found
    assert "Unknown error" not in check.found


def test_a_running_sluice_is_found_and_its_troubles_with_it(wire: Wire) -> None:
    wire.answers("GET", "/", {"name": "Sluice", "version": "9.9"})
    wire.answers("GET", "/readyz", {"status": "ready", "checks": {"store": None}})
    details = {"embed": "records that wait or are tried again: 1, first: the model refuses a text"}
    wire.answers("GET", "/readyz", {"status": "ready", "checks": {"embed": None}, "details": details})
    wire.answers("GET", "/readyz", {"status": "not ready", "checks": {"store": "it is away", "log": None}}, 503)

    well, busy, ill = (doctor.door(Settings()) for _ in range(3))

    assert (well.verdict, well.found) == ("ok", f"Sluice 9.9 answers at {wire.url}")
    assert (busy.verdict, busy.found) == ("ok", f"{well.found}; embed: {details['embed']}")
    assert ill.verdict == "failed"
    assert ill.found.endswith("but is not ready: store: it is away")


@pytest.mark.parametrize(
    ("live", "log", "verdict", "fix"),
    [
        (100, 10, "ok", None),
        (doctor.MANY_POINTS + 1, 10, "warning", "move to Kafka and a Qdrant server"),
        (100, doctor.LARGE_LOG + 1, "warning", "move to Kafka and a Qdrant server"),
    ],
)
def test_one_machine_that_is_outgrown_is_told_in_time(
    wire: Wire, live: int, log: int, verdict: str, fix: str | None
) -> None:
    lines = [
        f'sluice_store_live_points{{collection="chunks"}} {live}',
        'sluice_store_dead_points{collection="chunks"} 40',
        'sluice_store_bytes{collection="chunks"} 1000000',
        f'sluice_log_bytes{{topic="documents.submitted"}} {log}',
    ]
    wire.answers("GET", "/metrics", "\n".join(lines).encode())

    (check,) = doctor.growth(Settings())

    assert (check.verdict, check.fix and check.fix[:33]) == (verdict, fix)
    assert f"{live:,} points and 40 dead ones" in check.found


def test_sizes_are_told_by_topic_and_by_owner(wire: Wire) -> None:
    lines = [
        "sluice_store_live_points 5",
        'sluice_log_bytes{topic="documents.submitted"} 1.2e+09',
        'sluice_log_bytes{topic="documents.extracted"} 3e+09',
        'sluice_blob_bytes{owner="yes"} 2e+09',
        'sluice_blob_bytes{owner="no"} 5e+08',
    ]
    wire.answers("GET", "/metrics", "\n".join(lines).encode())

    (check,) = doctor.growth(Settings())

    assert "a log of 4.2 GB (documents.extracted 3.0, documents.submitted 1.2); " in check.found
    assert check.found.endswith("blobs of 2.5 GB, 0.5 GB of them without an owner")


def test_a_store_that_has_no_room_to_be_rewritten_is_told(wire: Wire) -> None:
    wire.answers("GET", "/metrics", b"sluice_store_live_points 5\nsluice_store_bytes 1e18")

    (check,) = doctor.growth(Settings())

    assert check.verdict == "warning"
    assert "the store needs room to drop dead points" in (check.fix or "")


def test_another_server_on_the_port_is_no_sluice(wire: Wire) -> None:
    wire.answers("GET", "/", {"hello": "world"})
    wire.answers("GET", "/readyz", {})

    assert "is not Sluice" in doctor.door(Settings()).found


def test_every_server_a_setting_names_is_tried() -> None:
    gone = free_port()
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]

        both = doctor.part("SLUICE_LOG", f"kafka://127.0.0.1:{port},127.0.0.1:{gone}")
        one = doctor.part("SLUICE_STORE", f"qdrant+http://127.0.0.1:{port}")

    assert both.verdict == "failed"
    assert f"127.0.0.1:{gone} can't be reached" in both.found
    assert f"127.0.0.1:{port} can't" not in both.found
    assert one.verdict == "ok"


@pytest.mark.parametrize("setting", ["sqlite:", "edge:", "minilm:", "file:", "extractive:", "file:///a/folder"])
def test_what_is_part_of_sluice_needs_no_server(setting: str) -> None:
    assert doctor.part("SLUICE_X", setting).verdict == "ok"


def test_a_bucket_is_asked_for_a_blob(s3_bucket: Bucket) -> None:
    there = doctor.part("SLUICE_BLOBS", s3_bucket.setting)
    elsewhere = doctor.part("SLUICE_BLOBS", s3_bucket.setting.replace(s3_bucket.name, "no-such-bucket"))
    misspelt = doctor.part("SLUICE_BLOBS", "s3://Documents")

    assert (there.verdict, there.fix) == ("ok", None)
    assert elsewhere.verdict == misspelt.verdict == "failed"
    assert "404 NoSuchBucket" in elsewhere.found
    assert "'Documents' is not a valid bucket name" in misspelt.found


def test_it_exits_by_what_it_found_and_speaks_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SLUICE_PORT", str(free_port()))
    monkeypatch.setenv("SLUICE_DATA", str(tmp_path))
    monkeypatch.setenv("SLUICE_STORE", f"qdrant+http://127.0.0.1:{free_port()}")

    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json"])

    checks = {each["name"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert ended.value.code == 1
    assert checks["weights"]["found"] == "all-MiniLM-L6-v2 has the pinned hash, and loads"
    assert [name for name, each in checks.items() if each["verdict"] == "failed"] == ["store"]


@pytest.mark.skipif(sys.platform != "linux", reason="children are confined on Linux only")
def test_the_means_that_confine_parsers_are_named() -> None:
    check = doctor.confinement()

    assert "seccomp" in check.found
    means = check.found.split(": ")[-1].split(", ")
    assert check.verdict == ("ok" if "landlock" in means else "warning")
    scoped = tuple(map(int, platform.release().split(".")[:2])) >= (6, 12)
    assert ("landlock scopes" in means) == ("landlock" in means and scoped)


@pytest.mark.parametrize(
    ("means", "verdict", "found"),
    [
        ("limits, landlock, seccomp", "ok", "parsers are confined: limits, landlock, seccomp"),
        ("limits, seccomp", "warning", "can read what this user can read"),
        ("", "warning", "this system can't confine parsers"),
    ],
)
def test_a_system_without_some_means_is_told(means: str, verdict: str, found: str) -> None:
    check = doctor.confined_by(means)

    assert check.verdict == verdict
    assert found in check.found


def test_it_says_what_a_served_model_is_sent() -> None:
    e5, plain = (
        doctor.weights("openai+http://host/v1/intfloat/multilingual-e5-small"),
        doctor.weights("ollama://host/all-minilm"),
    )

    assert "texts behind 'passage: ' and queries behind 'query: '" in e5.found
    assert "texts and queries as they are" in plain.found


def test_it_loads_the_model_of_a_folder(tmp_path: Path) -> None:
    folder = mean_model(tmp_path / "e5-tiny")

    found, wrong = doctor.weights(f"onnx:{folder}?pooling=mean"), doctor.weights(f"onnx:{folder}?pooling=cls")

    assert found.verdict == "ok"
    assert "e5-tiny loads, and gets texts behind 'passage: '" in found.found
    assert wrong.verdict == "failed"
