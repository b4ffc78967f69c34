import pytest

from shared.blobs.s3_address import S3Address, s3_address
from shared.settings import ConfigurationError


@pytest.mark.parametrize(
    ("setting", "environ", "address"),
    [
        ("s3://docs", {}, S3Address("docs")),
        ("s3://docs/a/b/?region=eu-1", {}, S3Address("docs", prefix="a/b", region="eu-1")),
        ("s3://docs?endpoint=http://h:9000", {}, S3Address("docs", endpoint="http://h:9000", style="path")),
        ("s3://docs", {"AWS_ENDPOINT_URL": "http://h"}, S3Address("docs", endpoint="http://h", style="path")),
        ("s3://docs?endpoint=http://h&style=virtual", {}, S3Address("docs", endpoint="http://h", style="virtual")),
    ],
)
def test_an_address_is_read(setting: str, environ: dict[str, str], address: S3Address) -> None:
    assert s3_address(setting, environ) == address


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("s3://Docs_", "not a valid bucket name"),
        ("s3://docs/a/../b", "prefix"),
        ("s3://docs?regoin=x", "regoin is unknown"),
        ("s3://docs?style=odd", "must be path or virtual"),
        ("s3://docs?endpoint=ftp://h", "must be http:// or https://"),
        ("http://docs", "must look like s3://"),
    ],
)
def test_another_form_is_refused_by_name(setting: str, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        s3_address(setting, {})


def test_credentials_are_refused_and_not_quoted() -> None:
    with pytest.raises(ConfigurationError, match="must not contain credentials") as refused:
        s3_address("s3://me:secret@docs", {})

    assert "secret" not in str(refused.value)
