"""The log that SLUICE_LOG names."""

from pathlib import Path

from shared.log import Log
from shared.log.sqlite import SqliteLog
from shared.settings import ConfigurationError


def open_log(setting: str, data: Path) -> Log:
    """Return the log, not started: `sqlite:` keeps it in the data folder, `sqlite:PATH` elsewhere.

    Raises:
        ConfigurationError: the setting names no log.
    """
    scheme, _, rest = setting.partition(":")
    if scheme != "sqlite":
        raise ConfigurationError(f"SLUICE_LOG={setting} names no log; sqlite: is one")
    return SqliteLog(Path(rest) if rest else data / "log.sqlite")
