"""`sluice ingest-worker` and the other single processes: settings, logging, and the line with their addresses."""

from collections.abc import Mapping

from services.operator_cli.terminal import console
from shared.runtime.logging_setup import configure_logging
from shared.runtime.privacy import keep_private
from shared.runtime.process import Start, run
from shared.runtime.settings_report import warn_of_unknown
from shared.settings import load_settings, read_given


def run_here(name: str, start: Start, *, door: bool = False, **overrides: object) -> int:
    """Return the exit code once the process has stopped; 0 after SIGINT or SIGTERM.

    Raises:
        ConfigurationError: a setting can't work, or a port is taken.
    """
    settings = load_settings(**_given(overrides))
    configure_logging(settings.log_format, settings.log_level, secrets=[key.key for key in settings.keys])
    warn_of_unknown(read_given())
    keep_private(settings)
    return run(name, settings, start, _announce, door=door)


def _given(overrides: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in overrides.items() if value is not None}


def _announce(line: str) -> None:
    out = console()
    # soft_wrap: the address must not be broken into two lines for a program that reads it from a pipe
    out.print(line, markup=False, soft_wrap=True)
    out.file.flush()
