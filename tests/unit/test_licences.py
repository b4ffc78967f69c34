"""No package of a running Sluice is under the GPL or AGPL alone, and every licence is known."""

import re

import pytest

from tests.licences.sbom import ROOT, WEIGHTS, bill, parts, strong_copyleft_only, table


@pytest.mark.parametrize(
    ("licences", "strong"),
    [
        (["GPL-3.0-only"], True),
        (["AGPL-3.0-or-later"], True),
        (["GNU General Public License v3 (GPLv3)"], True),
        (["GNU Affero General Public License v3"], True),
        (["LGPL-2.1-or-later"], False),
        (["GNU Lesser General Public License v3 (LGPLv3)"], False),
        (["MPL-1.1 OR GPL-2.0-only OR LGPL-2.1-or-later"], False),
        (["MIT License", "GNU General Public License v2 (GPLv2)"], False),
        (["Apache-2.0"], False),
        ([], False),
    ],
)
def test_what_leaves_no_other_choice_is_found(licences: list[str], strong: bool) -> None:
    assert strong_copyleft_only(licences) is strong


def test_no_package_is_under_the_gpl_alone() -> None:
    assert [part.name for part in parts() if strong_copyleft_only(part.licences)] == []


def test_every_installed_package_says_its_licence_and_is_pinned_by_hash() -> None:
    found = parts()
    pinned = re.findall(r"^[A-Za-z0-9._-]+==", (ROOT / "requirements" / "extras.txt").read_text(), re.MULTILINE)

    assert len(found) == len(pinned) > 100
    assert all(part.sha256 for part in found)
    # Of other systems, or of an extra that isn't installed here.
    assert len([part.name for part in found if not part.licences]) < len(found) // 4


def test_the_bill_and_the_notice_name_every_model() -> None:
    found = parts()
    notice = (ROOT / "NOTICE").read_text()

    assert {each["name"] for each in bill(found)["components"]} >= {model.name for model in WEIGHTS} | {"httpx"}
    for model in WEIGHTS:
        assert model.name in table(found)
        assert model.name in notice
        assert model.licence in notice
