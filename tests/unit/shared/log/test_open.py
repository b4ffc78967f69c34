from pathlib import Path

import pytest

from shared.log.kafka import KafkaLog
from shared.log.open import open_log
from shared.log.sqlite import SqliteLog
from shared.settings import ConfigurationError


@pytest.mark.parametrize(
    ("setting", "kind"), [("sqlite:", SqliteLog), ("sqlite:/tmp/other.db", SqliteLog), ("kafka://h:9092", KafkaLog)]
)
def test_the_scheme_names_the_log(setting: str, kind: type, tmp_path: Path) -> None:
    assert isinstance(open_log(setting, tmp_path), kind)


def test_an_unknown_scheme_is_refused_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_LOG=amqp is not a log") as refused:
        open_log("amqp://me:secret@host", tmp_path)

    assert "secret" not in str(refused.value)
