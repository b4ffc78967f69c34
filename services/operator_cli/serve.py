"""`sluice serve`: settings, logging, and the messages that a person sees while the server starts."""

import sys
from collections.abc import Mapping

from rich.console import Console

from services.operator_cli.terminal import console
from services.standalone.serve import serve
from shared.runtime.logging_setup import configure_logging
from shared.runtime.privacy import keep_private
from shared.runtime.settings_report import warn_of_unknown
from shared.settings import load_settings, read_given
from shared.tracing import start_tracing
from shared.version import VERSION

QUESTION = "When is the tower open in October?"


def serve_here(overrides: Mapping[str, object]) -> int:
    """Return the exit code once the server has stopped; 0 after SIGINT or SIGTERM.

    Raises:
        ConfigurationError: a setting can't work, the port is taken, or the folder is in use.
    """
    settings = load_settings(**overrides)
    # At a terminal, only the welcome and warnings are shown; events of every document only on request.
    quiet = sys.stderr.isatty() and "log_level" not in settings.model_fields_set
    level = "warning" if quiet else settings.log_level
    configure_logging(settings.log_format, level, secrets=[key.key for key in settings.keys], service="standalone")
    start_tracing("standalone")
    warn_of_unknown(read_given())
    keep_private(settings)
    return serve(settings, Welcome(console(), keys=settings.needs_key))


class Welcome:
    """Tells a person on stdout that the server is ready, and what to try first."""

    def __init__(self, out: Console, *, keys: bool) -> None:
        self._out = out
        self._key = ' -H "Authorization: Bearer $SLUICE_API_KEY"' if keys else ""

    def ready(self, url: str) -> None:
        """Print the address, with two commands to paste."""
        self._print(f"Sluice {VERSION} listens on {url}  (Ctrl-C stops it)")
        self._print("\nAsk it something:\n")
        for line in curl_lines(url, self._key):
            self._print(f"  {line}")
        self._print("")

    def notice(self, sentence: str) -> None:
        """Print a notice for the operator."""
        self._print(f"Note: {sentence}")

    def progress(self, done: int, of: int, name: str) -> None:
        """Print that a sample document was loaded."""
        self._print(f"  sample {done:2} of {of}  {name}")

    def loaded(self, count: int) -> None:
        """Print that all samples were loaded."""
        self._print(f"The sample library is loaded: {count} documents. Remove it: sluice documents rm --source samples")

    def _print(self, line: str) -> None:
        # soft_wrap: a curl line broken by the terminal's width would not work when pasted
        self._out.print(line, markup=False, soft_wrap=True)
        sys.stdout.flush()


def curl_lines(url: str, key: str = "") -> tuple[str, str]:
    """Return a search and a question as shell commands; `key` is inserted unchanged."""
    kind = f"{key} -H 'Content-Type: application/json'"
    return (
        f'curl -s {url}/rag/search{kind} -d \'{{"query": "tickets for the boat", "topK": 2}}\'',
        f'curl -s {url}/chat{kind} -d \'{{"message": "{QUESTION}", "useRag": true}}\'',
    )
