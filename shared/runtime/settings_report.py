"""The settings in force, each with where its value comes from and without secrets: `sluice config show`."""

from collections.abc import Iterator

import msgspec
import structlog

from shared.setting_sources import PREFIX, GivenSettings
from shared.settings import Settings

log = structlog.get_logger(__name__)


class SettingView(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as it is in force; secrets and passwords are `***`."""

    name: str
    value: str
    source: str  # default, environment, command line, the path of the file, or a RAG_ name of an older system


class SettingsReport(msgspec.Struct, frozen=True, kw_only=True):
    """All settings, and what was given and has no effect."""

    settings: list[SettingView]
    file: str | None  # path of the file that was read
    unknown: list[str]  # sentences that name unknown variables and keys
    ignored: list[str]  # variables that Kubernetes set for a service


def settings_report(settings: Settings, given: GivenSettings) -> SettingsReport:
    """Return the report; `given` is what environment and file say."""
    return SettingsReport(
        settings=[
            SettingView(name=f"{PREFIX}{name.upper()}", value=settings.shown(name), source=source)
            for name, source in settings.sources.items()
        ],
        file=given.file,
        unknown=[str(each) for each in given.unknown],
        ignored=list(given.kubernetes),
    )


def without_effect(given: GivenSettings) -> Iterator[str]:
    """Yield a sentence for each unknown name, and one for all variables of Kubernetes."""
    yield from map(str, given.unknown)
    if given.kubernetes:
        yield (
            f"{', '.join(given.kubernetes)}: ignored, because Kubernetes sets such variables for a service named sluice"
        )


def warn_of_unknown(given: GivenSettings) -> None:
    """Log each unknown name as a warning, and what Kubernetes set as information."""
    for each in given.unknown:
        log.warning("setting_unknown", reason=str(each))
    if given.kubernetes:
        log.info("settings_of_kubernetes_ignored", names=given.kubernetes)
