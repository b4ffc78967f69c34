"""Consumer groups: which member reads which partition, as leases in the file.

A partition moves in two steps, released and then taken, each with a higher generation. A member that wakes up late
holds an old generation, so its commit fails. Only partitions that move are revoked, as in Kafka's cooperative protocol.
Every member does its part itself (`attend`), so no coordinator can fail.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from aiokafka.errors import CommitFailedError

from shared.log.sqlite.storage import Transaction


def share(partitions: Sequence[int], members: Iterable[str], owners: Mapping[int, str | None]) -> dict[int, str]:
    """Return a member for each partition, distributed evenly, with as few moves as possible.

    If they can't be divided evenly, the members that own most keep one more. Ties are broken by id, so every member
    computes the same result.
    """
    candidates = sorted(members)
    if not candidates:
        return {}
    owned = Counter(owners.get(partition) for partition in partitions)
    candidates.sort(key=lambda member: -owned[member])  # stable: ids stay sorted among equals
    least, odd = divmod(len(partitions), len(candidates))
    room = {member: least + (rank < odd) for rank, member in enumerate(candidates)}
    shared: dict[int, str] = {}
    for partition in partitions:
        owner = owners.get(partition)
        if owner is not None and room.get(owner):
            shared[partition] = owner
            room[owner] -= 1
    free = (member for member in candidates for _ in range(room[member]))
    for partition in partitions:
        if partition not in shared:
            shared[partition] = next(free)
    return shared


class Member(msgspec.Struct, frozen=True):
    """One consumer of a group."""

    id: str
    group: str
    process: str
    topics: Mapping[str, tuple[int, ...]]  # subscribed topics and their partitions' row ids
    session_s: float
    start_at_end: bool  # where a group without a committed offset starts: its end, else its beginning


class Lease(msgspec.Struct, frozen=True):
    """A partition that a member owns."""

    generation: int
    offset: int  # the committed offset, where reading continues


class Membership(msgspec.Struct, frozen=True):
    """The partitions that a member owns after attending, and those that others wait for."""

    generation: int  # of the group; it changes when the assignment may have changed
    leases: dict[int, Lease]
    wanted_elsewhere: frozenset[int]


def attend(transaction: Transaction, member: Member, now: float, alive: Callable[[str], bool]) -> Membership:
    """Join or stay, evict dead members, take the free partitions that are ours, and return the assignment.

    `now` is the boot clock; `alive` tells whether a process (by its presence id) still runs.
    """
    connection = transaction.connection
    changed = _enter(transaction, member, now)
    changed |= _evict(transaction, member, now, alive)
    members = {
        id_: set(json.loads(topics))
        for id_, topics in connection.execute("SELECT id, topics FROM member WHERE consumer_group = ?", (member.group,))
    }
    held = {
        partition: (owner, generation)
        for partition, owner, generation in connection.execute(
            "SELECT partition, member, generation FROM lease WHERE consumer_group = ?", (member.group,)
        )
    }
    owners = {partition: owner for partition, (owner, _) in held.items()}
    leases: dict[int, Lease] = {}
    wanted_elsewhere: set[int] = set()
    for topic, partitions in member.topics.items():
        shares = share(partitions, [id_ for id_, topics in members.items() if topic in topics], owners)
        for partition in partitions:
            owner, generation = held.get(partition, (None, 0))
            if owner is None and shares[partition] == member.id:
                owner, generation = member.id, generation + 1
                connection.execute(
                    "INSERT INTO lease(consumer_group, partition, member, generation) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT DO UPDATE SET member = excluded.member, generation = excluded.generation",
                    (member.group, partition, owner, generation),
                )
                changed = True
            if owner == member.id:
                leases[partition] = Lease(generation, _offset(transaction, member, partition))
                if shares[partition] != member.id:
                    wanted_elsewhere.add(partition)
    if changed:
        _tell(transaction, member.group)
    generation = connection.execute("SELECT generation FROM consumer_group WHERE name = ?", (member.group,)).fetchone()[
        0
    ]
    return Membership(generation, leases, frozenset(wanted_elsewhere))


def release(transaction: Transaction, member: Member, partitions: Iterable[int]) -> None:
    """Release those of these partitions that the member still owns."""
    transaction.connection.executemany(
        "UPDATE lease SET member = NULL WHERE consumer_group = ? AND partition = ? AND member = ?",
        [(member.group, partition, member.id) for partition in partitions],
    )
    _tell(transaction, member.group)


def leave(transaction: Transaction, member: Member) -> None:
    """Remove the member from its group."""
    _remove(transaction, member.group, member.id)
    _tell(transaction, member.group)


def commit(
    transaction: Transaction,
    group: str,
    member: str | None,
    offsets: Mapping[int, tuple[int | None, int, str]],
) -> None:
    """Store (generation, offset, metadata) by partition, all or none.

    `member` None is a tool that chose its partitions itself; then no member may hold them.

    Raises:
        CommitFailedError: another member, or nobody, holds one of the partitions by now.
    """
    connection = transaction.connection
    for partition, (generation, _, _) in offsets.items():
        row = connection.execute(
            "SELECT member, generation FROM lease WHERE consumer_group = ? AND partition = ?", (group, partition)
        ).fetchone() or (None, None)
        if row[0] != member or (member is not None and row[1] != generation):
            raise CommitFailedError(
                f"group {group}: generation {generation} of partition {partition} is not {member}'s any more"
            )
    connection.executemany(
        "INSERT INTO committed(consumer_group, partition, offset, metadata) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET offset = excluded.offset, metadata = excluded.metadata",
        [(group, partition, offset, metadata) for partition, (_, offset, metadata) in offsets.items()],
    )


def reset(
    transaction: Transaction, group: str, offsets: Mapping[int, int], now: float, alive: Callable[[str], bool]
) -> None:
    """Store the offsets by partition, all or none; members that are gone lose their leases.

    Raises:
        CommitFailedError: the group has living members.
    """
    _evict_all(transaction, group, now, alive)
    commit(transaction, group, None, {partition: (None, offset, "") for partition, offset in offsets.items()})
    _tell(transaction, group)


def drop(transaction: Transaction, group: str, now: float, alive: Callable[[str], bool]) -> None:
    """Forget the group. Raises CommitFailedError if it has living members."""
    _evict_all(transaction, group, now, alive)
    transaction.connection.execute("DELETE FROM lease WHERE consumer_group = ?", (group,))
    transaction.connection.execute("DELETE FROM committed WHERE consumer_group = ?", (group,))
    _tell(transaction, group)


def _evict_all(transaction: Transaction, group: str, now: float, alive: Callable[[str], bool]) -> None:
    rows = transaction.connection.execute(
        "SELECT id, process, expires FROM member WHERE consumer_group = ?", (group,)
    ).fetchall()
    living = [id_ for id_, process, expires in rows if expires >= now and alive(process)]
    if living:
        raise CommitFailedError(f"group {group} has {len(living)} members: {', '.join(sorted(living))}")
    for id_, _, _ in rows:
        _remove(transaction, group, id_)


def _enter(transaction: Transaction, member: Member, now: float) -> bool:
    connection = transaction.connection
    known = connection.execute(
        "UPDATE member SET expires = ? WHERE id = ?", (now + member.session_s, member.id)
    ).rowcount
    if known:
        return False
    connection.execute(
        "INSERT INTO member(id, consumer_group, process, topics, session_s, expires) VALUES (?, ?, ?, ?, ?, ?)",
        (
            member.id,
            member.group,
            member.process,
            json.dumps(sorted(member.topics)),
            member.session_s,
            now + member.session_s,
        ),
    )
    return True


def _evict(transaction: Transaction, member: Member, now: float, alive: Callable[[str], bool]) -> bool:
    gone = [
        id_
        for id_, process, expires in transaction.connection.execute(
            "SELECT id, process, expires FROM member WHERE consumer_group = ? AND id != ?", (member.group, member.id)
        )
        if expires < now or not alive(process)
    ]
    for id_ in gone:
        _remove(transaction, member.group, id_)
    return bool(gone)


def _remove(transaction: Transaction, group: str, id_: str) -> None:
    transaction.connection.execute("DELETE FROM member WHERE id = ?", (id_,))
    transaction.connection.execute(
        "UPDATE lease SET member = NULL WHERE consumer_group = ? AND member = ?", (group, id_)
    )


def _offset(transaction: Transaction, member: Member, partition: int) -> int:
    connection = transaction.connection
    row = connection.execute(
        "SELECT offset FROM committed WHERE consumer_group = ? AND partition = ?", (member.group, partition)
    ).fetchone()
    if row is None:
        # Stored, because an offset that is missing would mean later that nothing was read.
        column = "next" if member.start_at_end else "start"
        row = connection.execute(
            f"SELECT {column} FROM partition WHERE id = ?",  # noqa: S608 - one of two words, above
            (partition,),
        ).fetchone()
        connection.execute(
            "INSERT INTO committed(consumer_group, partition, offset, metadata) VALUES (?, ?, ?, '')",
            (member.group, partition, row[0]),
        )
    offset: int = row[0]
    return offset


def _tell(transaction: Transaction, group: str) -> None:
    transaction.connection.execute(
        "INSERT INTO consumer_group(name, generation) VALUES (?, 1) "
        "ON CONFLICT DO UPDATE SET generation = generation + 1",
        (group,),
    )
