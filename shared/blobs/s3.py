"""The blob store in an S3 bucket: tenant/documentId/sha256/put, where every put has an id of its own.

A bucket has no locks, and no delete on the condition that an object wasn't written again meanwhile. So no object is
written twice: a put creates a new object, then deletes the older ones that it listed before. An object is deleted only
by a put of the same content, or because it is old and unwanted; concurrent puts create objects of other names.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import uuid4

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from shared.blobs import Document, StoredBlob, blob_name, document_name
from shared.blobs.s3_address import S3Address
from shared.contracts import BlobRef
from shared.errors import Rejected, Unavailable
from shared.settings import ConfigurationError

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import S3Config

T = TypeVar("T")

TIMEOUT_S: Final = 60.0  # 25 MB at 0.5 MB/s
_CONNECT_S: Final = 5.0
_RETRIES: Final = 2
_LISTED: Final = 1000  # objects per list request
_LOOKS: Final = 5  # tries to read an object that concurrent puts keep replacing
_ABSENT: Final = (NotFoundError, FileNotFoundError)  # which one is raised depends on the package's version
_STATUS: Final = re.compile(r"status code: (\d{3})")
_ERROR: Final = re.compile(r"<Code>(\w++)</Code>(?:(?!<Code>).)*?<Message>([^<]*+)</Message>", re.DOTALL)


class S3Blobs:
    """The blob store of `s3://`: Amazon's, or a compatible server with consistent listings (list after write).

    Every method raises Rejected for a name that isn't valid, and Unavailable when the store can't be reached, is slow
    or full, or refuses the credentials.
    """

    def __init__(self, address: S3Address, *, timeout_s: float = TIMEOUT_S) -> None:
        """Take the address; each request times out after `timeout_s`, its retries included.

        Raises:
            ConfigurationError: the client refuses the configuration, for example half of the credentials.
        """
        self._shown = address.shown
        self._timeout_s = timeout_s
        try:
            self._store = _connect(address, timeout_s)
        except (BaseError, ValueError) as error:
            raise ConfigurationError(f"SLUICE_BLOBS: {self._shown}: {_reason(str(error))}") from error

    async def put(self, tenant: str, document_id: str, data: bytes) -> BlobRef:
        document = document_name(tenant, document_id)
        ref = BlobRef(sha256=await _digest(data), size=len(data))
        folder = f"{document}/{ref.sha256}"
        older = await self._listed(folder)
        await self._call(obstore.put_async(self._store, f"{folder}/{uuid4().hex}", data, use_multipart=False))
        await self._deleted(older)
        return ref

    async def get(self, tenant: str, document_id: str, ref: BlobRef) -> bytes:
        folder = f"{document_name(tenant, document_id)}/{blob_name(ref.sha256)}"
        listed: Sequence[ObjectMeta] = ()
        # Several tries, because a put may replace the object after it was listed or even during the listing.
        for _ in range(_LOOKS):
            listed = await self._listed(folder)
            altered: bytes | None = None
            for each in listed:
                data = await self._read(each["path"])
                if data is None:
                    continue
                if await _digest(data) == ref.sha256:
                    return data
                altered = data
            if altered is not None:
                raise Rejected(
                    f"the blob {folder} was altered: its {len(altered)} bytes aren't the {ref.size} bytes stored",
                    "blob_altered",
                )
        if listed:
            raise Unavailable(f"{self._shown} lists the blob {folder}, but answers that it doesn't exist")
        await self._sure_of_none(folder)
        raise Rejected(f"the blob {folder} is missing", "blob_missing")

    async def stored(self, document: Document | None = None) -> AsyncIterator[Sequence[StoredBlob]]:
        now, folder = time.time(), None if document is None else document_name(*document)
        listing = obstore.list(self._store, prefix=folder, chunk_size=_LISTED).__aiter__()
        objects = await self._call(_next_of(listing))
        if folder is not None and not objects:
            await self._sure_of_none(folder)
        while objects:
            found = []
            for each in objects:
                match each["path"].split("/"):
                    case [tenant, document_id, sha256, put]:  # other objects don't belong to Sluice
                        age_s = now - each["last_modified"].timestamp()
                        found.append(StoredBlob(tenant, document_id, sha256, each["size"], put, age_s))
            yield found
            objects = await self._call(_next_of(listing))

    async def remove(self, blob: StoredBlob) -> bool:
        """Delete the blob and return whether it was there. A later put is another object and stays."""
        folder = f"{document_name(blob.tenant, blob.document_id)}/{blob_name(blob.sha256)}"
        found = [each for each in await self._listed(folder) if each["path"] == f"{folder}/{blob.put}"]
        await self._deleted(found)
        return bool(found)

    async def _listed(self, folder: str) -> Sequence["ObjectMeta"]:
        return await self._call(obstore.list(self._store, prefix=folder).collect_async())

    async def _sure_of_none(self, folder: str) -> None:
        # A proxy's HTML page is parsed as an empty list, but only a bucket answers that a key doesn't exist.
        if await self._read(f"{folder}/none") is not None:
            raise Unavailable(f"{self._shown} doesn't answer like an S3 bucket; is there a proxy in front of it?")

    async def _read(self, key: str) -> bytes | None:
        async def whole() -> bytes | None:
            try:
                return bytes(await (await obstore.get_async(self._store, key)).bytes_async())
            except _ABSENT:
                return None

        return await self._call(whole())

    async def _deleted(self, objects: Sequence["ObjectMeta"]) -> None:
        if objects:
            await self._call(obstore.delete_async(self._store, [each["path"] for each in objects]))

    async def _call(self, call: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await call
        except TimeoutError as error:
            raise Unavailable(f"{self._shown} gave no answer in {self._timeout_s:g} s") from error
        except (BaseError, OSError) as error:
            raise Unavailable(f"{self._shown}: {_reason(str(error))}") from error


def _connect(address: S3Address, timeout_s: float) -> S3Store:
    config: S3Config = {"virtual_hosted_style_request": address.style == "virtual"}
    if address.region is not None:
        config["region"] = address.region
    if address.endpoint is not None:
        scheme, _, host = address.endpoint.partition("://")
        # This key, because the variable AWS_ENDPOINT_URL_S3 overrides a plain `endpoint`.
        config["aws_endpoint_url_s3"] = (
            f"{scheme}://{address.bucket}.{host}" if address.style == "virtual" else address.endpoint
        )
    timeout = timedelta(seconds=timeout_s)
    return S3Store(
        address.bucket,
        prefix=address.prefix or None,
        config=config,
        client_options={
            "allow_http": (address.endpoint or "").startswith("http://"),
            "timeout": 2 * timeout,  # longer than our own timeout, which includes the retries
            "connect_timeout": timedelta(seconds=_CONNECT_S),
        },
        retry_config={"max_retries": _RETRIES, "retry_timeout": timeout},
    )


async def _next_of(listing: "AsyncIterator[Sequence[ObjectMeta]]") -> "Sequence[ObjectMeta]":
    # `anext` with a default doesn't accept the package's stream class.
    try:
        return await listing.__anext__()
    except StopAsyncIteration:
        return ()


async def _digest(data: bytes) -> str:
    # In a thread, because 25 MB take 116 ms.
    return await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())


def _reason(message: str) -> str:
    """Return the useful part of the package's error message, which can be a page long."""
    error = _ERROR.search(message)
    status = _STATUS.search(message)
    if error:
        reason = f"{error[1]}: {error[2]}" if status is None else f"it answered {status[1]} {error[1]}: {error[2]}"
    elif status:
        reason = f"it answered {status[1]}"
    else:
        reason = message.partition("\n")[0].rpartition(" - ")[2].rpartition(" error: ")[2]
    if status and status[1] in {"401", "403"}:
        reason += " (check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, the region, and what the bucket allows them)"
    return " ".join(reason.split())[:400]
