"""Validates the parts of a blob's name, so that no name can point outside the store."""

import re
from typing import Final

from shared.errors import Rejected

_TENANT: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,64}")
_DOCUMENT: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def document_name(tenant: str, document_id: str) -> str:
    """Return `tenant/documentId`.

    Raises:
        Rejected: a part is not valid.
    """
    if not _TENANT.fullmatch(tenant):
        raise Rejected(f"the tenant {tenant!r} must be 1 to 64 letters, digits, '.', '_' or '-', and not just dots")
    if not _DOCUMENT.fullmatch(document_id):
        raise Rejected(f"the document id {document_id!r} must be a UUID in lower case")
    return f"{tenant}/{document_id}"


def blob_name(sha256: str) -> str:
    """Return `sha256`, the blob's name within its document.

    Raises:
        Rejected: it is not a SHA-256 in lower-case hex.
    """
    if not _SHA256.fullmatch(sha256):
        raise Rejected(f"the blob's name {sha256!r} must be 64 hex digits in lower case")
    return sha256
