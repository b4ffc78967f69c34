import os
from pathlib import Path

import pytest

from shared.setting_sources import given_settings
from shared.settings import SECRETS, ConfigurationError, Settings, load_settings

KNOWN = frozenset(Settings.model_fields)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leave the machine's own settings out, and start in an empty folder."""
    for name in [name for name in os.environ if name.startswith(("SLUICE_", "RAG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def unknown(**environment: str) -> list[str]:
    return [str(each) for each in given_settings(KNOWN, {"SLUICE_CONFIG": "", **environment}).unknown]


# The file


@pytest.mark.feature(251)
def test_the_environment_wins_over_the_file_and_the_file_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("sluice.toml").write_text('port = 4000\nhistory = 7\nsamples = false\nallowed_hosts = ["a.local", "b.local"]')
    monkeypatch.setenv("SLUICE_PORT", "5000")

    settings = load_settings(parsers=3)

    assert (settings.port, settings.history, settings.samples, settings.parsers) == (5000, 7, "off", 3)
    assert settings.allowed_hosts == "a.local,b.local"
    named = {name: settings.sources[name] for name in ("port", "history", "parsers", "log")}
    assert named == {"port": "environment", "history": "sluice.toml", "parsers": "command line", "log": "default"}


def test_another_file_can_be_named_and_none_can_be_wanted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Path("sluice.toml").write_text("history = 1")
    (tmp_path / "other.conf").write_text("history = 2")

    monkeypatch.setenv("SLUICE_CONFIG", "other.conf")
    other = load_settings()
    monkeypatch.setenv("SLUICE_CONFIG", "")

    assert (other.history, other.sources["history"], load_settings().history) == (2, "other.conf", None)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("port = ", "sluice.toml is not TOML"),
        ('port = "many"', "sluice.toml: port=many: "),
        ("chunk_overlap = 900", r"sluice.toml: chunk_overlap=900: must be at most half of chunk_size \(400\)"),
    ],
)
def test_a_wrong_file_stops_the_start_and_is_named(content: str, sentence: str) -> None:
    Path("sluice.toml").write_text(content)

    with pytest.raises(ConfigurationError, match=sentence):
        load_settings()


def test_a_named_file_that_is_not_there_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CONFIG", "gone.toml")

    with pytest.raises(ConfigurationError, match=r"gone.toml can't be read: No such file"):
        load_settings()


def test_names_of_older_systems_win_over_nothing_that_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("sluice.toml").write_text("history = 7")
    monkeypatch.setenv("RAG_MAX_HISTORY", "3")
    monkeypatch.setenv("RAG_SIMILARITY_THRESHOLD", "0.5")

    settings = load_settings()

    assert (settings.history, settings.min_score) == (7, 0.5)
    assert settings.sources["min_score"] == "RAG_SIMILARITY_THRESHOLD"


# Secrets in files


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_each_secret_may_stand_in_a_file_of_its_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "a-long-enough-key:default:query"
    Path("secret").write_text(f"\ufeff{secret}\n")  # as some editors begin a file
    Path("sluice.toml").write_text("\ufeff")
    monkeypatch.setenv("SLUICE_STRICT", "on")
    monkeypatch.setenv(f"SLUICE_{name.upper()}_FILE", "secret")

    settings = load_settings()

    assert getattr(settings, name).get_secret_value() == secret
    assert (settings.sources[name], settings.shown(name)) == ("secret", "***")


def test_a_key_of_the_file_names_a_secret_s_file_and_the_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("secret").write_text("of-a-file-and-long-enough")
    Path("sluice.toml").write_text('secret_file = "secret"')
    from_file = load_settings()
    monkeypatch.setenv("SLUICE_SECRET", "of-the-environment-itself")
    from_variable = load_settings()
    monkeypatch.setenv("SLUICE_SECRET", "")  # as Compose passes on what isn't set
    monkeypatch.setenv("SLUICE_SECRET_FILE", "secret")
    Path("sluice.toml").write_text('secret = "a-secret-of-the-settings"')

    shown = [each.secret.get_secret_value() for each in (from_file, from_variable, load_settings())]
    assert shown == ["of-a-file-and-long-enough", "of-the-environment-itself", "of-a-file-and-long-enough"]


@pytest.mark.parametrize(
    ("environment", "content", "sentence"),
    [
        ({"SLUICE_SECRET_FILE": "gone"}, "", "SLUICE_SECRET_FILE can't be read: No such file or directory"),
        ({"SLUICE_SECRET_FILE": "."}, "", "SLUICE_SECRET_FILE=. can't be read: Is a directory"),
        ({"SLUICE_SECRET_FILE": "empty"}, "", "SLUICE_SECRET_FILE=empty is empty"),
        ({"SLUICE_SECRET_FILE": "bytes"}, "", "SLUICE_SECRET_FILE=bytes is not UTF-8"),
        ({}, 'secret_file = "gone"', "sluice.toml: secret_file can't be read: No such file or directory"),
        (
            {"SLUICE_SECRET_FILE": "empty", "SLUICE_SECRET": "x"},
            "",
            "SLUICE_SECRET_FILE is set, and so is SLUICE_SECRET: one may be",
        ),
        (
            {},
            'secret_file = "empty"\nsecret = "x"',
            "sluice.toml: secret_file is set, and so is sluice.toml: secret: one may be",
        ),
    ],
)
def test_a_secret_s_file_that_can_t_be_used_stops_the_start_and_is_named(
    environment: dict[str, str], content: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("sluice.toml").write_text(content)
    Path("empty").write_text("\n")
    Path("bytes").write_bytes(b"\xff\xfe")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ConfigurationError) as refused:
        load_settings()

    assert str(refused.value) == sentence


# Unknown names


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("SLUICE_PROT", "SLUICE_PORT"), ("SLUICE_EMBEDER", "SLUICE_EMBEDDER"), ("SLUICE_API_KEYES", "SLUICE_API_KEYS")],
)
def test_an_unknown_variable_is_named_with_the_nearest_one(name: str, nearest: str) -> None:
    assert unknown(**{name: "x"}) == [f"{name} is not a setting; did you mean {nearest}?"]


def test_an_unknown_key_of_the_file_is_named_with_the_file() -> None:
    Path("sluice.toml").write_text('SLUICE_PORT = 1\nchunk-size = 400\nquite_other = "x"')

    assert [str(each) for each in given_settings(KNOWN, {}).unknown] == [
        "SLUICE_PORT in sluice.toml is not a setting; did you mean port?",
        "chunk-size in sluice.toml is not a setting; did you mean chunk_size?",
        "quite_other in sluice.toml is not a setting",
    ]


def test_it_stops_the_start_only_where_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_PROT", "1")
    load_settings()
    monkeypatch.setenv("SLUICE_STRICT", "on")

    with pytest.raises(ConfigurationError, match="SLUICE_PROT is not a setting; did you mean SLUICE_PORT"):
        load_settings()


def test_names_of_the_commands_and_of_the_tests_are_known() -> None:
    assert unknown(SLUICE_URL="x", SLUICE_API_KEY="x", SLUICE_TEST_SEED="x", SLUICED="x") == []


def test_what_kubernetes_sets_for_a_service_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    injected = {
        "SLUICE_PORT": "tcp://10.96.0.7:3000",
        "SLUICE_SERVICE_HOST": "10.96.0.7",
        "SLUICE_SERVICE_PORT": "3000",
        "SLUICE_SERVICE_PORT_HTTP": "3000",
        "SLUICE_PORT_3000_TCP": "tcp://10.96.0.7:3000",
        "SLUICE_PORT_3000_TCP_PROTO": "tcp",
        "SLUICE_PORT_3000_TCP_PORT": "3000",
        "SLUICE_PORT_3000_TCP_ADDR": "10.96.0.7",
        "SLUICE_SIDE_PORT": "tcp://10.96.0.8:9090",  # of a service named sluice-side
        "SLUICE_STORE_SERVICE_HOST": "10.96.0.9",
    }
    for name, value in injected.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLUICE_STRICT", "on")

    settings = load_settings()

    assert (settings.port, settings.side_port) == (3000, 0)
    assert given_settings(KNOWN, os.environ).kubernetes == tuple(sorted(injected))
