"""The log that SLUICE_LOG names."""

from pathlib import Path

from shared.log import Log
from shared.log.sqlite import SqliteLog
from shared.settings import ConfigurationError


def open_log(setting: str, data: Path) -> Log:
    """Return the log, not started: `sqlite:` keeps it in the data folder, `sqlite:PATH` elsewhere, and
    `kafka://host:9092,…` is a cluster (shared/log/kafka/address.py has its options).

    Raises:
        ConfigurationError: the setting names no log.
    """
    scheme, _, rest = setting.partition(":")
    if setting.startswith("kafka://"):
        from shared.log.kafka import KafkaLog, kafka_address  # clients that the other size needn't load

        return KafkaLog(kafka_address(setting))
    if scheme != "sqlite":
        # What follows the scheme may hold a password.
        raise ConfigurationError(f"SLUICE_LOG={scheme} names no log; sqlite: is one, kafka://host:9092 another")
    return SqliteLog(Path(rest) if rest else data / "log.sqlite")
