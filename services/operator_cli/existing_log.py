"""Opens the log of the settings for commands that work without a server, and never creates it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shared.log import Log
from shared.log.open import open_log
from shared.settings import ConfigurationError, Settings


def check_log_exists(settings: Settings) -> None:
    """Check that opening the log won't create it.

    Raises:
        ConfigurationError: the data folder has no log.
    """
    if settings.log == "sqlite:" and not (settings.data / "log.sqlite").exists():
        raise ConfigurationError(f"SLUICE_DATA={settings.data} has no log.sqlite: no document was ever sent to it")


@asynccontextmanager
async def existing_log(settings: Settings) -> AsyncIterator[Log]:
    """Yield the log, started.

    Raises:
        ConfigurationError: there is no log yet. Unavailable: it is away.
    """
    check_log_exists(settings)
    log = open_log(settings.log, settings.data)
    try:
        await log.start()
        yield log
    finally:
        await log.stop()
