"""What callers hand back is what they were given."""

import msgspec
import pytest

from services.query_api.http.opaque_tokens import Signer
from services.query_api.http.problems import Problem

SIGNER = Signer(b"a secret")


class Page(msgspec.Struct, frozen=True):
    after: str


class Other(msgspec.Struct, frozen=True):
    after: str


def test_a_token_gives_its_value_back() -> None:
    assert SIGNER.opened(SIGNER.sign(Page("é"), tenant="t"), Page, field="cursor", tenant="t") == Page("é")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "é",
        "====",
        "x",
        "00000000-0000-4000-8000-000000000000",
        SIGNER.sign(Page("a"), tenant="other"),
        SIGNER.sign(Other("a"), tenant="t"),
        Signer(b"another secret").sign(Page("a"), tenant="t"),
        SIGNER.sign(Page("a"), tenant="t")[:-4],
    ],
)
def test_a_token_of_others_is_refused(token: str) -> None:
    with pytest.raises(Problem, match="cursor: is not one that this API issued"):
        SIGNER.opened(token, Page, field="cursor", tenant="t")
