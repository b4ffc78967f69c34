"""What may be part of a blob's name, on every store: nothing that could lead elsewhere."""

import re
from typing import Final

from shared.errors import Rejected

_TENANT: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,64}")
_DOCUMENT: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def document_name(tenant: str, document_id: str) -> str:
    """Return `tenant/documentId`.

    Raises:
        Rejected: a part can't be a name.
    """
    if not _TENANT.fullmatch(tenant):
        raise Rejected(f"the tenant {tenant!r} can't name a folder: 1 to 64 letters, digits, '.', '_' or '-'")
    if not _DOCUMENT.fullmatch(document_id):
        raise Rejected(f"the document id {document_id!r} is no UUID in lower case")
    return f"{tenant}/{document_id}"


def blob_name(sha256: str) -> str:
    """Return `sha256`, which is a blob's name in its document.

    Raises:
        Rejected: it is no hash.
    """
    if not _SHA256.fullmatch(sha256):
        raise Rejected(f"the blob's name {sha256!r} must be 64 hex digits in lower case")
    return sha256
