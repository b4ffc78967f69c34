"""The route that shows the settings in force on this server."""

from litestar.di import NamedDependency

from services.query_api.http.routes import get
from shared.runtime.settings_report import SettingsReport


@get("/ops/config", role="operator", needs_parts=False)
async def ops_config(settings_report: NamedDependency[SettingsReport]) -> SettingsReport:
    """Show every setting of this server and where its value comes from. Secrets and passwords are `***`."""
    return settings_report
