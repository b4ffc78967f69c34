"""`sluice config show`: values, where they come from, and no secret."""

import json
import os
from pathlib import Path

import pytest

from services.operator_cli import doctor
from shared.settings import read_given
from tests.unit.services.operator_cli.conftest import Sluice, Wire, free_port


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_URL", f"http://127.0.0.1:{free_port()}")  # no server answers


@pytest.mark.feature(251)
def test_every_value_is_shown_with_its_source_and_secrets_are_masked(
    sluice: Sluice, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("sluice.toml").write_text('openai_api_key = "sk-secret-1"\nlog = "kafka://me:secret-2@host:9092"')
    monkeypatch.setenv("SLUICE_API_KEYS", "secret-3-of-mine:t:query")

    ran = sluice("config", "show")

    lines = dict(line.split("\t", 1) for line in ran.out.splitlines())
    assert ran.code == 0
    assert lines["SLUICE_API_KEYS"] == "***\tenvironment"
    assert lines["SLUICE_OPENAI_API_KEY"] == "***\tsluice.toml"
    assert lines["SLUICE_LOG"] == "kafka://***@host:9092\tsluice.toml"
    assert lines["SLUICE_PORT"] == "3000\tdefault"
    assert "secret" not in ran.out


def test_only_what_is_set_can_be_shown_and_an_unknown_name_is_an_exit_code(
    sluice: Sluice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_HISTORY", "7")
    monkeypatch.setenv("SLUICE_PROT", "7")
    monkeypatch.setenv("SLUICE_PORT", "tcp://10.0.0.1:3000")

    table, document = sluice("config", "show", "--changed"), sluice("config", "show", "--changed", "--json")

    assert (table.code, table.out) == (1, "name\tvalue\tsource\nSLUICE_HISTORY\t7\tenvironment\n")
    assert table.err.splitlines() == [
        "SLUICE_PROT is not a setting; did you mean SLUICE_PORT?",
        "SLUICE_PORT: ignored, because Kubernetes sets such variables for a service named sluice",
    ]
    assert json.loads(document.out) == {
        "settings": [{"name": "SLUICE_HISTORY", "value": "7", "source": "environment"}],
        "file": None,
        "unknown": ["SLUICE_PROT is not a setting; did you mean SLUICE_PORT?"],
        "ignored": ["SLUICE_PORT"],
        "notInForce": None,
    }


def test_the_doctor_names_an_unknown_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    well = doctor.names(read_given())
    monkeypatch.setenv("SLUICE_EMBEDER", "minilm:")

    check = doctor.names(read_given())

    assert (well.verdict, well.found) == ("ok", "every SLUICE_ variable has a valid value")
    assert check.verdict == "warning"
    assert check.found == "SLUICE_EMBEDER is not a setting; did you mean SLUICE_EMBEDDER?"


def test_a_setting_that_the_server_s_index_was_not_built_with_is_named(sluice: Sluice, wire: Wire) -> None:
    said = "SLUICE_CHUNK_SIZE=600 is not in force, the index was built with 400; build one: sluice reindex start"
    wire.answers("GET", "/readyz", {"status": "ready", "checks": {}, "details": {"settings": said}})

    shown, as_json = sluice("config", "show"), sluice("config", "show", "--json")

    assert (shown.code, said in shown.err) == (0, True)
    assert json.loads(as_json.out)["notInForce"] == said


def test_without_a_server_nothing_is_said_of_its_index(sluice: Sluice) -> None:
    ran = sluice("config", "show", "--json")

    assert (ran.code, json.loads(ran.out)["notInForce"]) == (0, None)
