"""The log that SLUICE_LOG names."""

from pathlib import Path

from pydantic import SecretStr

from shared.log import Log
from shared.log.sqlite import SqliteLog
from shared.settings import ConfigurationError


def log_file(setting: str, data: Path) -> Path | None:
    """Return the file of an SQLite log, None for a Kafka cluster."""
    scheme, _, rest = setting.partition(":")
    if scheme != "sqlite":
        return None
    return Path(rest) if rest else data / "log.sqlite"


def open_log(setting: str, data: Path, password: SecretStr | None = None) -> Log:
    """Return the log, not started. `sqlite:` is a file in the data folder, `sqlite:PATH` a file elsewhere, and
    `kafka://host:9092,…` a cluster (its options are in shared/log/kafka/address.py), whose user
    has the password.

    Raises:
        ConfigurationError: the setting isn't a log's address.
    """
    if setting.startswith("kafka://"):
        from shared.log.kafka import KafkaLog, kafka_address  # imported here: a standalone server needs no Kafka client

        return KafkaLog(kafka_address(setting, password))
    path = log_file(setting, data)
    if path is None:
        # Only the scheme is quoted: the rest may contain a password.
        raise ConfigurationError(
            f"SLUICE_LOG={setting.partition(':')[0]} is not a log; use sqlite: or kafka://host:9092"
        )
    return SqliteLog(path)
