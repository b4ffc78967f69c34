"""What `sluice upgrade` prints."""

import pytest

from services.operator_cli.actions.upgrade import upgrade_lines
from services.operator_cli.moving.upgrade import Upgraded, UpgradeStep

STEP = UpgradeStep(number=2, part="log", what="a list of replaced records")


def upgraded(**fields: object) -> Upgraded:
    given: dict[str, object] = {
        "path": "/d",
        "dry_run": False,
        "format": 1,
        "newest": 7,
        "migrations": (STEP,),
        "copy": "/d.before-7",
        "copy_bytes": 2_500_000,
        "verdict": "right",
        "seconds": 1.25,
    }
    return Upgraded(**(given | fields))  # type: ignore[arg-type]  # by name


def test_it_says_what_is_due_and_where_the_copy_is() -> None:
    assert list(upgrade_lines(upgraded())) == [
        "/d has format 1, and this release writes format 7",
        "   2  log    a list of replaced records",
        "The copy from before the upgrade is at /d.before-7, 2.5 MB",
        "Applied 1 migration in 1.2 s; nothing was embedded",
        "Log and index agree: start Sluice",
    ]
    assert list(upgrade_lines(upgraded(dry_run=True, verdict="")))[-2:] == [
        "Would copy the folder to /d.before-7 first, 2.5 MB",
        "Would embed nothing",
    ]
    assert list(upgrade_lines(upgraded(copy="", dry_run=True)))[-2] == "Would make no copy"
    assert "No copy was made" in list(upgrade_lines(upgraded(copy="")))


def test_a_folder_of_this_release_needs_nothing() -> None:
    assert list(upgrade_lines(upgraded(format=7, migrations=(), copy="", verdict=""))) == [
        "/d has format 7, which is this release's format: nothing to do"
    ]


@pytest.mark.parametrize(
    ("verdict", "code", "says"), [("right", 0, "agree"), ("wrong", 1, "differ"), ("unsettled", 2, "sluice verify")]
)
def test_its_exit_code_is_that_of_the_comparison(verdict: str, code: int, says: str) -> None:
    done = upgraded(verdict=verdict)

    assert done.exit_code == code
    assert says in list(upgrade_lines(done))[-1]
