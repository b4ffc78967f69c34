"""`sluice lag`."""

from services.operator_cli.options import Json


def lag(*, as_json: Json = False) -> None:
    """Show how many records each stage has yet to read, and since when. Works while Sluice is stopped."""
    import msgspec

    from services.operator_cli.actions.log_tools import lags, on_log
    from services.operator_cli.terminal import print_json, print_rows

    found = on_log(lags)
    if as_json:
        print_json(found)
        return
    names = {"group": "GROUP", "topic": "TOPIC", "lag": "LAG", "members": "MEMBERS", "oldestUnread": "OLDEST-UNREAD"}
    rows = [{names[name]: value for name, value in msgspec.to_builtins(each).items()} for each in found]
    print_rows(rows, tuple(names.values()), right=("LAG", "MEMBERS"))
