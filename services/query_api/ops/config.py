"""The route that shows the settings in force on this server."""

from litestar import get
from litestar.di import NamedDependency

from services.query_api.http.auth import needs
from services.query_api.http.lanes import in_lane
from services.query_api.http.replies import replies
from shared.runtime.settings_report import SettingsReport


@get(
    "/ops/config",
    operation_id="ops_config",
    guards=[needs("operator")],
    opt=in_lane("ask") | replies(needs_parts=False),
)
async def ops_config(settings_report: NamedDependency[SettingsReport]) -> SettingsReport:
    """Show every setting of this server and where its value comes from. Secrets and passwords are `***`."""
    return settings_report
