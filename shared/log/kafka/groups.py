"""The members of a cluster's consumer groups and their partitions, as the groups' coordinators report them."""

from collections.abc import Iterator

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import GroupIdNotFound, for_code
from aiokafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, DescribeGroupsRequest_v2

from shared.log import GroupMember


class DescribeGroups(DescribeGroupsRequest):  # type: ignore[misc]  # aiokafka has no types
    """Asks with version 2 of the request: aiokafka would ask with version 3, and misread the reply as version 2."""

    def prepare(self, versions: object) -> DescribeGroupsRequest_v2:  # noqa: ARG002 - aiokafka's signature
        """Return the request to send."""
        return DescribeGroupsRequest_v2(self._groups)


async def members(admin: AIOKafkaAdminClient, group_id: str) -> tuple[GroupMember, ...]:
    """Return the group's members, sorted by id; none during a rebalance. Raises KafkaError."""
    coordinator = await admin.find_coordinator(group_id)
    reply = await admin._send_request(DescribeGroups([group_id]), coordinator)  # noqa: SLF001 - the admin's own way
    return tuple(sorted(_members(reply)))


async def drop(admin: AIOKafkaAdminClient, group_id: str) -> None:
    """Delete the group, if there is one. Raises KafkaError, NonEmptyGroup while it has members."""
    coordinator = await admin.find_coordinator(group_id)
    reply = await admin._send_request(DeleteGroupsRequest([group_id]), coordinator)  # noqa: SLF001 - the admin's own way
    for _, error in reply.results:
        if error not in (0, GroupIdNotFound.errno):
            raise for_code(error)


def _members(reply: object) -> Iterator[GroupMember]:
    for error, _name, _state, _kind, _protocol, found, *_more in reply.groups:  # type: ignore[attr-defined]  # aiokafka has no types
        if error:
            raise for_code(error)
        for id_, client_id, host, _metadata, assignment, *_ in found:
            partitions = ConsumerProtocolMemberAssignment.decode(assignment).partitions() if assignment else ()
            yield GroupMember(id_, client_id, host, frozenset(partitions))
