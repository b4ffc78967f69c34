"""What deploy/host sets up can't be started here; so all that it names must exist, and systemd check it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from services.operator_cli.main import app
from shared.settings import SECRETS, Settings, load_settings
from tests.unit.deploy.files import ROOT, raw_compose

FOLDER = ROOT / "deploy" / "host"
UNIT = (FOLDER / "sluice.service").read_text("utf-8")
README = (FOLDER / "README.md").read_text("utf-8")
GIVEN = dict(re.findall(r"^Environment=(\w+)=(.*)$", UNIT, re.MULTILINE))


def test_the_unit_names_settings_a_command_and_a_credential_that_exist(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    [(credential, file)] = re.findall(r"^LoadCredential=(\w+):(\S+)$", UNIT, re.MULTILINE)
    (tmp_path / credential).write_text("a-long-enough-key:default:ingest+query+operator\n")
    monkeypatch.setenv("SLUICE_STRICT", "on")
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value.replace("%d", str(tmp_path)))

    settings = load_settings()

    assert settings.keys[0].roles == {"ingest", "query", "operator"}
    assert credential.removeprefix("SLUICE_").lower() in SECRETS
    assert file in README, "the page says who makes it"
    assert settings.data == Path("/var/lib") / re.findall(r"^StateDirectory=(\w+)$", UNIT, re.MULTILINE)[0]
    [command] = re.findall(r"^ExecStart=/opt/sluice/bin/sluice (\w+)$", UNIT, re.MULTILINE)
    commands = typer.main.get_command(app)
    assert isinstance(commands, typer.core.TyperGroup)
    assert command in commands.commands


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    here = tmp_path / "sluice.service"
    here.write_text(UNIT.replace("/opt/sluice/bin/sluice", sys.executable))
    checked = subprocess.run(
        ["systemd-analyze", "verify", here], capture_output=True, text=True, check=False, timeout=60
    )

    assert [line for line in checked.stderr.splitlines() if here.name in line] == []


@pytest.mark.parametrize("name", ["Caddyfile", "nginx.conf"])
def test_a_proxy_leads_to_the_default_port_under_the_name_that_links_have(name: str) -> None:
    text = (FOLDER / name).read_text("utf-8")

    assert f"127.0.0.1:{Settings().port}" in text
    assert GIVEN["SLUICE_PROXIES"] == "127.0.0.1"
    assert GIVEN["SLUICE_PUBLIC_URL"].removeprefix("https://") in text
    assert "client_max_body_size 1g;" in text or name == "Caddyfile"  # which has no limit
    assert Settings().max_batch == 1024**3


def test_the_backup_has_every_volume_of_compose_that_can_t_be_made_again() -> None:
    [volumes] = re.findall(r"for volume in ([\w ]+); do", README)

    assert {*volumes.split()} == raw_compose()["volumes"].keys() - {"models", "secrets", "snapshots"}
    assert f"{raw_compose()['name']}_$volume" in README
