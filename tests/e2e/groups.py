"""Who owns what in Kafka's consumer groups, as the broker sees it."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import KafkaError
from aiokafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsRequest_v2

OWNED_GUARD_S = 75.0  # a hang guard: five times what it may take


class _Describe(DescribeGroupsRequest):  # type: ignore[misc]  # aiokafka has no types
    """aiokafka reads the answer to version 3, the newest it asks for, as if it were version 2's."""

    def prepare(self, versions: object) -> DescribeGroupsRequest_v2:
        return DescribeGroupsRequest_v2(self._groups)


class Share(NamedTuple):
    """A member and how many partitions it has."""

    member: str
    partitions: int


class Groups:
    """The groups of a node; topics have so many `partitions`, and a group one topic."""

    def __init__(self, address: str, partitions: int) -> None:
        self._address = address
        self._partitions = partitions
        self._known: dict[str, frozenset[str]] = {}  # members as last seen, by group

    def owned(self, wanted: Mapping[str, int], changed: Sequence[str] = ()) -> float:
        """Return after how many seconds every partition has an owner.

        Each group whose name begins with a key of `wanted` then has so many members, each with a share; those that
        begin with one of `changed` have other members than at the last call.
        """
        began = time.monotonic()
        while True:
            try:
                shares = asyncio.run(_shares(self._address))
            except KafkaError as error:
                shares, seen = {}, repr(error)
            else:
                seen = str(shares)
            found = {prefix: self._settled(shares, prefix, members) for prefix, members in wanted.items()}
            if all(found.values()) and all(found[prefix] != self._known[prefix] for prefix in changed):
                self._known = found
                return time.monotonic() - began
            waited = time.monotonic() - began
            assert waited < OWNED_GUARD_S, f"{wanted} members, changed {changed}: not after {waited:.0f} s: {seen}"
            time.sleep(0.2)  # another process: there is nothing to await

    def _settled(self, shares: Mapping[str, list[Share] | None], prefix: str, members: int) -> frozenset[str]:
        """Return the members of the group when there are so many and they have all partitions; else none."""
        for name, group in shares.items():
            if name.startswith(prefix) and group is not None and len(group) == members:
                parts = [share.partitions for share in group]
                if all(parts) and sum(parts) == self._partitions:
                    return frozenset(share.member for share in group)
        return frozenset()


async def _shares(address: str) -> dict[str, list[Share] | None]:
    """Return the members of each group with a topic; None for a group that is being dealt anew."""
    admin = AIOKafkaAdminClient(bootstrap_servers=address, request_timeout_ms=10_000)
    await admin.start()
    try:
        names = [name for name, _kind in await admin.list_consumer_groups()]
        reply = await admin._send_request(_Describe(names))
    finally:
        await admin.close()
    return {
        name: [Share(member, _partitions(assignment)) for member, _, _, _, assignment, *_ in members]
        if state == "Stable"
        else None
        for _error, name, state, _kind, _protocol, members, *_ in reply.groups
    }


def _partitions(assignment: bytes) -> int:
    return len(ConsumerProtocolMemberAssignment.decode(assignment).partitions())
