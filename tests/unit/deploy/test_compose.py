"""compose.yaml can't be started here; so all that it names must exist, and all that it promises be written."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer
from opentelemetry.sdk import environment_variables
from prometheus_client import CollectorRegistry

from services.operator_cli.main import app
from shared.blobs.open import open_blobs
from shared.embedder.open import open_embedder
from shared.log.kafka.address import kafka_address
from shared.log.open import open_log
from shared.runtime.connections import Connections
from shared.runtime.listening import answered, bound
from shared.runtime.probes import Probed, side_app
from shared.settings import SECRETS as SECRET_SETTINGS
from shared.settings import Settings, load_settings
from shared.store.open import open_store
from shared.version import VERSION
from tests.servers import ollama
from tests.unit.deploy.files import (
    COMPOSE,
    EXAMPLE,
    ROOT,
    Unset,
    environment,
    interpolated,
    raw_compose,
    services,
    stages,
)

SECRETS = {"KAFKA_PASSWORD": "kafkas-own-password", "QDRANT_API_KEY": "qdrants-own-key"}
KEYS = {"SLUICE_API_KEYS": "a-long-enough-key:default:ingest+query", **SECRETS}
SERVICES = services(KEYS)
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("sluice:")}
LASTING = {name: service for name, service in OURS.items() if name not in ("init", "cli")}
ONE_SHOTS = ("init", "ollama-pull")

CLIENT = ("SLUICE_URL", "SLUICE_API_KEY")  # what the command line takes beside the settings

each_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
each_of_ours = pytest.mark.parametrize("service", OURS.values(), ids=OURS)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the settings that a service would read."""

    def settings(service: Mapping[str, Any], environ: Mapping[str, str] = KEYS) -> Settings:
        for name in [name for name in os.environ if name.startswith(("SLUICE_", "AWS_"))]:
            monkeypatch.delenv(name)
        for name, value in environment(service, environ).items():
            monkeypatch.setenv(name, value)
        return load_settings()

    return settings


def test_it_is_a_compose_file() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.feature(77, 78)
def test_the_services_are_those_of_the_design() -> None:
    assert SERVICES.keys() == {
        "kafka",
        "qdrant",
        "ollama",
        "ollama-pull",
        "init",
        "cli",
        "ingest-worker",
        "embed-worker",
        "query-api",
    }
    assert OURS.keys() == {"init", "cli", "ingest-worker", "embed-worker", "query-api"}


# What it names exists.


@each_of_ours
def test_every_command_exists(service: dict[str, Any]) -> None:
    commands = typer.main.get_command(app)
    assert isinstance(commands, typer.core.TyperGroup)

    assert set(service["command"]) - {"--help"} <= commands.commands.keys()


@each_of_ours
def test_every_variable_exists(service: dict[str, Any]) -> None:
    named = {name for name in service["environment"] if name.startswith("SLUICE_")} - {*CLIENT}
    known = {*Settings.model_fields, *(f"{secret}_file" for secret in SECRET_SETTINGS)}

    assert {name.removeprefix("SLUICE_").lower() for name in named} <= known
    assert {name for name in service["environment"] if name.startswith("OTEL_")} <= vars(environment_variables).keys()


@each_of_ours
def test_the_settings_open_every_part(service: dict[str, Any], started: Any) -> None:
    settings = started(service)

    open_log(settings.log, settings.data)
    open_store(settings)
    open_embedder(settings.embedder)
    open_blobs(settings.blobs, settings.data)
    assert not settings.keeps_data  # there is no volume for it


@each_of_ours
def test_every_server_in_the_settings_is_a_service_on_a_network_of_its_own(service: dict[str, Any]) -> None:
    settings = {
        name: value for name, value in service["environment"].items() if "://" in str(value) if name not in CLIENT
    }
    assert settings.keys() == {"SLUICE_LOG", "SLUICE_STORE", "SLUICE_EMBEDDER", "SLUICE_CHAT"}

    for value in settings.values():
        url = urlsplit(value)
        server = SERVICES[url.hostname or ""]
        assert set(server["networks"]) & set(service["networks"])
        assert url.port in listening(url.hostname or "", server)


def listening(name: str, server: Mapping[str, Any]) -> set[int]:
    """Return the ports that a server is told to listen on; Qdrant's are its own."""
    if name == "qdrant":
        return {6333, 6334}
    told = server["environment"]["KAFKA_LISTENERS" if name == "kafka" else "OLLAMA_HOST"]
    return {int(port) for port in re.findall(r":(\d+)", told)}


def test_kafka_advertises_what_it_listens_on_by_names_that_lead_to_it() -> None:
    told = SERVICES["kafka"]["environment"]
    listeners = dict(re.findall(r"(\w+)://[\w.]*:(\d+)", told["KAFKA_LISTENERS"]))
    advertised = {
        name: (host, port)
        for name, host, port in re.findall(r"(\w+)://([\w.]+):(\d+)", told["KAFKA_ADVERTISED_LISTENERS"])
    }
    protocols = dict(re.findall(r"(\w+):(\w+)", told["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"]))

    assert advertised == {"CLIENTS": ("kafka", "9092"), "HOST": ("127.0.0.1", "9094"), "INSIDE": ("127.0.0.1", "9095")}
    inside = {name for name, host in re.findall(r"(\w+)://([\w.]*):", told["KAFKA_LISTENERS"]) if host == "127.0.0.1"}
    assert {name for name, protocol in protocols.items() if protocol == "PLAINTEXT"} == inside
    assert all(listeners[name] == port for name, (_, port) in advertised.items())
    assert told["KAFKA_CONTROLLER_QUORUM_VOTERS"].endswith(f":{listeners['CONTROLLER']}")
    assert set(dict(re.findall(r"(\w+):(\w+)", told["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"]))) == set(listeners)
    assert SERVICES["kafka"]["ports"] == [f"127.0.0.1:{listeners['HOST']}:{listeners['HOST']}"]


@pytest.mark.feature(82)
def test_the_api_s_port_is_the_one_that_is_published(started: Any) -> None:
    settings = started(SERVICES["query-api"])

    assert SERVICES["query-api"]["ports"] == [f"127.0.0.1:3000:{settings.port}"]
    assert settings.host == "0.0.0.0"


def test_every_model_of_our_ollama_is_loaded_before_it_starts(started: Any) -> None:
    settings = started(SERVICES["query-api"])
    models = {urlsplit(value).path.strip("/") for value in (settings.embedder, settings.chat)}

    assert set(SERVICES["ollama-pull"]["environment"]["MODELS"].split()) == models
    assert SERVICES["ollama"]["depends_on"] == {"ollama-pull": {"condition": "service_completed_successfully"}}
    assert SERVICES["ollama"]["volumes"] == SERVICES["ollama-pull"]["volumes"]


def test_the_example_of_an_env_file_names_every_variable_and_no_other() -> None:
    text = COMPOSE.read_text(encoding="utf-8")
    passed = {
        name for service in SERVICES.values() for name, value in service.get("environment", {}).items() if value is None
    }
    wanted = set(re.findall(r"\$\{(\w+)", text)) | passed

    assert set(re.findall(r"^#?([A-Z_]+)=", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE)) == wanted
    assert ".env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("unset", [{}, {"SLUICE_API_KEYS": ""}])
def test_without_keys_it_does_not_start_and_says_what_to_do(unset: dict[str, str], started: Any) -> None:
    with pytest.raises(Unset, match=r"put SLUICE_API_KEYS=.* into \.env"):
        interpolated(raw_compose()["services"], unset | SECRETS)
    for name in SECRETS:
        with pytest.raises(Unset, match=f"put {name} into"):
            interpolated(raw_compose()["services"], {**KEYS, name: ""})

    keyless = {**SERVICES["query-api"], "environment": {**SERVICES["query-api"]["environment"], "SLUICE_API_KEYS": ""}}
    assert started(keyless).needs_key, "an empty file of keys opens nothing"


def test_the_command_line_reaches_the_api_and_its_file_of_keys(started: Any) -> None:
    cli, api = SERVICES["cli"], SERVICES["query-api"]

    assert cli["profiles"] == ["cli"], "it starts only where it is called"
    assert cli["environment"]["SLUICE_URL"] == f"http://query-api:{started(api).port}"
    assert [each for each in api["volumes"] if "secrets" not in each] == cli["volumes"]
    assert started(cli).key_file == started(api).key_file == Path("/keys/keys.json")


def test_who_sets_up_sign_in_gives_the_api_a_folder_with_the_secret_s_file(started: Any, tmp_path: Path) -> None:
    text = re.sub(r"^#(?=[A-Z_]+=)", "", EXAMPLE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    told = dict(line.split("=", 1) for line in text.splitlines() if line.startswith(("SLUICE_OIDC", "SLUICE_PUBLIC")))
    (tmp_path / "oidc_secret").write_text("of-the-client\n")
    mounted = services({**KEYS, "SECRETS": str(tmp_path)})["query-api"]["volumes"][-1]
    assert mounted == f"{tmp_path}:/secrets:ro"

    inside = told["SLUICE_OIDC_SECRET_FILE"].replace("/secrets", str(tmp_path))
    settings = started(SERVICES["query-api"], {**KEYS, **told, "SLUICE_OIDC_SECRET_FILE": inside})

    assert settings.oidc_secret.get_secret_value() == "of-the-client"
    assert (settings.oidc, settings.public_url) == (told["SLUICE_OIDC"], told["SLUICE_PUBLIC_URL"])
    assert [name for name, each in SERVICES.items() if "SLUICE_OIDC" in each.get("environment", {})] == ["query-api"]


def test_only_the_api_is_told_the_keys() -> None:
    assert [name for name, service in SERVICES.items() if "SLUICE_API_KEYS" in service.get("environment", {})] == [
        "query-api"
    ]


def test_a_password_is_told_to_its_server_and_to_our_services_alone() -> None:
    def knowing(secret: str) -> set[str]:
        return {name for name, service in SERVICES.items() if secret in str(service.get("environment", {}))}

    assert knowing(SECRETS["KAFKA_PASSWORD"]) == {*OURS, "kafka"}
    assert knowing(SECRETS["QDRANT_API_KEY"]) == {*OURS, "qdrant"}


@each_of_ours
def test_our_services_sign_in_to_kafka_and_qdrant(service: dict[str, Any], started: Any) -> None:
    settings = started(service)
    address = kafka_address(settings.log)

    assert (address.username, address.password) == ("sluice", SECRETS["KAFKA_PASSWORD"])
    assert (address.security_protocol, address.sasl_mechanism) == ("SASL_PLAINTEXT", "PLAIN")
    assert settings.qdrant_api_key.get_secret_value() == SECRETS["QDRANT_API_KEY"]
    for listener in ("CLIENTS", "HOST"):
        login = SERVICES["kafka"]["environment"][f"KAFKA_LISTENER_NAME_{listener}_PLAIN_SASL_JAAS_CONFIG"]
        assert f'PlainLoginModule required user_sluice="{SECRETS["KAFKA_PASSWORD"]}";' in login


# Versions.


@each_service
def test_every_image_is_pinned(service: dict[str, Any]) -> None:
    images = [
        service["image"],
        *re.findall(r"^FROM (\S+)", service.get("build", {}).get("dockerfile_inline", ""), re.MULTILINE),
    ]

    assert [image for image in images if not re.search(r":v?\d+\.\d+\.\d+(-unprivileged)?$", image)] == []


def test_each_image_is_built_once_and_before_whoever_needs_it() -> None:
    built = [service["image"] for service in SERVICES.values() if "build" in service]

    assert sorted(built) == ["sluice-ollama:0.17.4", f"sluice:{VERSION}"]
    assert SERVICES["init"]["build"]["args"] == {"EXTRAS": ""}


def test_our_image_bears_our_version() -> None:
    assert {service["image"] for service in OURS.values()} == {f"sluice:{VERSION}"}


def test_qdrant_is_within_one_minor_version_of_its_client() -> None:
    locked = re.search(r"^qdrant-client==(\d+)\.(\d+)", (ROOT / "requirements/base.txt").read_text(), re.MULTILINE)
    image = re.search(r":v(\d+)\.(\d+)\.", SERVICES["qdrant"]["image"])
    assert locked
    assert image

    assert locked[1] == image[1]
    assert abs(int(locked[2]) - int(image[2])) <= 1


def test_kafka_and_ollama_are_those_that_the_tests_run_on() -> None:
    pom = (ROOT / "tests/servers/kafka_pom.xml").read_text(encoding="utf-8")
    kafka = re.search(r"<artifactId>kafka_2\.13</artifactId>\s*<version>([\d.]+)</version>", pom)
    assert kafka

    assert SERVICES["kafka"]["image"] == f"apache/kafka:{kafka[1]}"
    assert f"FROM {ollama.IMAGE}\n" in SERVICES["ollama-pull"]["build"]["dockerfile_inline"]


# What nobody may do.


@each_service
def test_a_service_can_do_no_more_than_it_must(service: dict[str, Any]) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert int(service["user"].partition(":")[0]) >= 1000
    assert not service.keys() & {"privileged", "cap_add", "devices", "network_mode", "pid", "ipc", "userns_mode"}
    assert service["pids_limit"] > 0
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert service["logging"] == {"driver": "local"}


@each_service
def test_ports_are_open_on_this_machine_alone(service: dict[str, Any]) -> None:
    assert [port for port in service.get("ports", []) if not port.startswith("127.0.0.1:")] == []


@each_service
def test_what_is_written_is_a_named_volume_or_memory(service: dict[str, Any]) -> None:
    named = [volume.partition(":")[0] for volume in service.get("volumes", [])]

    assert set(named) <= raw_compose()["volumes"].keys()
    assert any(mount.startswith("/tmp:") for mount in service["tmpfs"])
    assert all("mode=1777" in mount and "size=" in mount for mount in service["tmpfs"])


@each_of_ours
def test_our_volumes_are_folders_that_the_image_made_for_its_user(service: dict[str, Any]) -> None:
    made = " ".join(step.rest for step in stages()[-1] if step.name == "RUN")

    for volume in service["volumes"]:
        folder = volume.split(":")[1]
        assert re.search(rf"install -d -o sluice -g sluice [^&]*{folder}\b", made)
    assert service["user"] == next(step.rest for step in stages()[-1] if step.name == "USER")


def test_the_index_and_the_models_have_no_way_out() -> None:
    assert raw_compose()["networks"]["back"] == {"internal": True}
    for name in ("qdrant", "ollama"):
        assert SERVICES[name]["networks"] == ["back"]
        assert "ports" not in SERVICES[name]


# In which order, and whether it is well.


def test_whatever_is_waited_for_can_be_waited_for() -> None:
    waited = [(name, each) for service in SERVICES.values() for name, each in service.get("depends_on", {}).items()]
    assert waited

    for name, each in waited:
        if name in ONE_SHOTS:
            assert each == {"condition": "service_completed_successfully"}
            assert SERVICES[name]["restart"] == "no"
        else:
            assert each == {"condition": "service_healthy"}
            assert SERVICES[name]["healthcheck"]["test"]


@pytest.mark.parametrize("service", LASTING.values(), ids=LASTING)
def test_what_stays_starts_after_everything_and_comes_back(service: dict[str, Any]) -> None:
    assert service["depends_on"].keys() == {"init", "kafka", "qdrant", "ollama"}
    assert service["restart"] == "unless-stopped"
    assert service["init"] is True


@asynccontextmanager
async def a_side_port(trouble: str | None) -> AsyncIterator[int]:
    async def troubles() -> dict[str, str | None]:
        return {"store": trouble}

    with bound("127.0.0.1", 0) as listener:
        async with answered(side_app(Probed(troubles, CollectorRegistry())), listener, Connections(10)):
            yield listener.getsockname()[1]


def checked(service: str, port: int, instead_of: int) -> int:
    """Return the exit code of a service's health check, asked at another port."""
    kind, *command = SERVICES[service]["healthcheck"]["test"]
    assert kind == "CMD"
    assert str(instead_of) in command[-1]
    command[-1] = command[-1].replace(str(instead_of), str(port))
    program = sys.executable if command[0] == "python" else command[0]
    return subprocess.run([program, *command[1:]], check=False, capture_output=True, timeout=60).returncode


def test_our_services_are_asked_in_one_way() -> None:
    assert [service["healthcheck"] for service in LASTING.values()] == [SERVICES["query-api"]["healthcheck"]] * 3


# Qdrant's own probe answers as ours does: 200 or 503 on /readyz.
@pytest.mark.parametrize(("service", "port"), [("query-api", 3001), ("qdrant", 6333)])
async def test_the_health_check_tells_ready_from_not_ready_and_from_gone(service: str, port: int) -> None:
    async with a_side_port(trouble=None) as here:
        assert await asyncio.to_thread(checked, service, here, port) == 0
    assert await asyncio.to_thread(checked, service, here, port) != 0
    async with a_side_port(trouble="it is away") as here:
        assert await asyncio.to_thread(checked, service, here, port) != 0


@pytest.mark.parametrize("service", LASTING.values(), ids=LASTING)
def test_the_health_check_asks_the_port_that_the_settings_give(service: dict[str, Any], started: Any) -> None:
    assert f'HTTPConnection("127.0.0.1", {started(service).side_port},' in service["healthcheck"]["test"][-1]


OLLAMA = """#!/bin/sh
case "$1" in
  serve) {serve} ;;
  list) [ -e "$HERE/up" ] ;;
  show) [ -e "$HERE/models/$2" ] ;;
  pull) echo "$2" >> "$HERE/pulled" ;;
esac
"""


def pulled(folder: Path, serve: str) -> tuple[int, list[str]]:
    """Return the exit code of the one-shot, and what it loaded, with an `ollama` that does as `serve` says."""
    (folder / "models").mkdir()
    (folder / "models" / "llama3.2").touch()
    program = folder / "ollama"
    program.write_text(OLLAMA.format(serve=serve))
    program.chmod(0o755)
    one_shot = SERVICES["ollama-pull"]
    running = subprocess.Popen(
        [*one_shot["entrypoint"], *one_shot["command"]],
        env={
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HERE": str(folder),
            "MODELS": one_shot["environment"]["MODELS"],
        },
        start_new_session=True,
    )
    try:
        code = running.wait(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)  # the server in the background, which a container takes along
        running.wait()
    loaded = folder / "pulled"
    return code, loaded.read_text().split() if loaded.exists() else []


def test_the_models_that_are_missing_are_loaded_and_no_others(tmp_path: Path) -> None:
    assert pulled(tmp_path, serve='touch "$HERE/up"; exec sleep 60') == (0, ["nomic-embed-text"])


def test_a_server_that_ends_at_once_ends_the_loading(tmp_path: Path) -> None:
    code, loaded = pulled(tmp_path, serve="exit 1")

    assert code != 0
    assert loaded == []
