"""Parses the setting `s3://…`."""

import os
import re
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec

from shared.settings import ConfigurationError

Style = Literal["path", "virtual"]

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX: Final = re.compile(r"(?!.*(^|/)\.{1,2}(/|$))[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_SHAPE: Final = "s3://bucket/prefix?endpoint=http://host:9000&region=eu-central-1&style=path"


class S3Address(msgspec.Struct, frozen=True):
    """A bucket and a prefix in it. Credentials come from the AWS_ variables or the machine's role."""

    bucket: str
    prefix: str = ""
    endpoint: str | None = None  # of a server that isn't Amazon's, http://host:port
    region: str | None = None  # else AWS_REGION, else us-east-1
    style: Style = "virtual"  # path: endpoint/bucket/key; virtual: bucket.endpoint/key

    @property
    def shown(self) -> str:
        """Return the bucket's name for error messages."""
        return f"the bucket {self.bucket}" + (f" at {self.endpoint}" if self.endpoint else "")


def s3_address(setting: str, environ: Mapping[str, str] = os.environ) -> S3Address:
    """Return the address in `s3://bucket/prefix?endpoint=…&region=…&style=path`; all but the bucket is optional.

    Without `endpoint`: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, else Amazon's. Without `style`: `path` where there is
    an endpoint, else `virtual`.

    Raises:
        ConfigurationError: the setting has another form; the sentence names SLUICE_BLOBS and the value.
    """
    try:
        parts = urlsplit(setting)
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:
        raise ConfigurationError(f"SLUICE_BLOBS={setting}: {error}") from error
    if "@" in setting.partition("?")[0]:
        raise ConfigurationError(
            "SLUICE_BLOBS must not contain credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if parts.scheme != "s3" or parts.fragment:
        raise ConfigurationError(f"SLUICE_BLOBS={setting} must look like {_SHAPE}")
    prefix = parts.path.strip("/")
    if not _BUCKET.fullmatch(parts.netloc):
        raise ConfigurationError(f"SLUICE_BLOBS={setting}: {parts.netloc!r} is not a valid bucket name")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise ConfigurationError(
            f"SLUICE_BLOBS={setting}: the prefix {prefix!r} may contain only A-Z a-z 0-9 . _ - and /"
        )
    if unknown := sorted(given.keys() - {"endpoint", "region", "style"}):
        raise ConfigurationError(
            f"SLUICE_BLOBS={setting}: {unknown[0]} is unknown; the parameters are endpoint, region and style"
        )
    endpoint = given.get("endpoint") or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or None
    style = given.get("style", "path" if endpoint else "virtual")
    if style not in {"path", "virtual"}:
        raise ConfigurationError(f"SLUICE_BLOBS={setting}: style={style} must be path or virtual")
    return S3Address(
        bucket=parts.netloc,
        prefix=prefix,
        endpoint=None if endpoint is None else _endpoint(setting, endpoint),
        region=given.get("region") or None,
        style="path" if style == "path" else "virtual",
    )


def _endpoint(setting: str, endpoint: str) -> str:
    try:
        parts = urlsplit(endpoint)
        sound = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        sound = False
    if not sound or parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigurationError(
            f"SLUICE_BLOBS={setting}: the endpoint {endpoint} must be http:// or https:// and a host"
        )
    return f"{parts.scheme}://{parts.netloc}"
