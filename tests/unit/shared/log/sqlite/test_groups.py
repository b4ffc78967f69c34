from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from aiokafka.errors import CommitFailedError
from hypothesis import given
from hypothesis import strategies as st

from shared.log.sqlite import groups
from shared.log.sqlite.file import connect, open_writer
from shared.log.sqlite.groups import Member, attend, commit, leave, release, share
from shared.log.sqlite.storage import Transaction

MEMBERS = ["a", "b", "c", "d", "e"]


@given(
    partitions=st.integers(0, 12),
    members=st.sets(st.sampled_from(MEMBERS)),
    owners=st.dictionaries(st.integers(0, 11), st.sampled_from([*MEMBERS, None])),
)
def test_shares_are_even_and_move_as_little_as_that_allows(
    partitions: int, members: set[str], owners: dict[int, str | None]
) -> None:
    shared = share(range(partitions), members, owners)

    if not members:
        assert shared == {}
        return
    assert set(shared) == set(range(partitions))
    counts = Counter(shared.values())
    sizes = [counts[member] for member in members]
    assert max(sizes) - min(sizes) <= 1
    assert share(range(partitions), members, shared) == shared
    kept = sum(owners.get(partition) == member for partition, member in shared.items())
    owned = sorted((sum(owners.get(p) == m for p in range(partitions)) for m in members), reverse=True)
    least, odd = divmod(partitions, len(members))
    assert kept == sum(min(count, least + (rank < odd)) for rank, count in enumerate(owned))


@pytest.fixture
def transaction(tmp_path: Path) -> Iterator[Transaction]:
    with closing(open_writer(tmp_path / "log.db", connect)) as connection:
        connection.execute(
            "INSERT INTO topic(id, name, partitions, cleanup, max_record_bytes) VALUES (1, 'events', 4, 'delete', 1)"
        )
        connection.executemany("INSERT INTO partition(id, topic, number) VALUES (?, 1, ?)", [(n, n) for n in range(4)])
        yield Transaction(connection, lambda: 0)


def a_member(name: str) -> Member:
    return Member(name, "g", f"process of {name}", {"events": (0, 1, 2, 3)}, 10.0, start_at_end=False)


A, B = a_member("a"), a_member("b")


def everybody(_process: str) -> bool:
    return True


def committed(transaction: Transaction) -> dict[int, int]:
    return dict(transaction.connection.execute("SELECT partition, offset FROM committed"))


def test_a_partition_moves_only_after_it_was_let_go(transaction: Transaction) -> None:
    assert set(attend(transaction, A, 0, everybody).leases) == {0, 1, 2, 3}
    assert attend(transaction, B, 0, everybody).leases == {}

    asked = attend(transaction, A, 1, everybody)
    assert len(asked.wanted_elsewhere) == 2
    release(transaction, A, asked.wanted_elsewhere)

    assert set(attend(transaction, B, 1, everybody).leases) == asked.wanted_elsewhere
    assert attend(transaction, A, 1, everybody).wanted_elsewhere == frozenset()


def test_a_member_whose_lease_ran_out_loses_its_partitions_and_its_commits(transaction: Transaction) -> None:
    before = attend(transaction, A, 0, everybody)
    assert attend(transaction, B, 9.9, everybody).leases == {}

    after = attend(transaction, B, 10.1, everybody)

    assert set(after.leases) == {0, 1, 2, 3}
    with pytest.raises(CommitFailedError):
        commit(transaction, "g", "a", {0: (before.leases[0].generation, 7, "")})
    commit(transaction, "g", "b", {0: (after.leases[0].generation, 3, "")})
    assert committed(transaction)[0] == 3

    woken = attend(transaction, A, 11, everybody)
    assert woken.leases == {}
    assert woken.generation > after.generation


def test_a_lease_nobody_else_asks_for_outlives_a_pause(transaction: Transaction) -> None:
    before = attend(transaction, A, 0, everybody)

    after = attend(transaction, A, 1000, everybody)

    assert after == before


def test_members_of_a_dead_process_are_evicted_at_once(transaction: Transaction) -> None:
    attend(transaction, A, 0, everybody)

    standing = attend(transaction, B, 0.1, lambda process: process != A.process)

    assert set(standing.leases) == {0, 1, 2, 3}


def test_a_partition_taken_again_has_a_new_generation(transaction: Transaction) -> None:
    first = attend(transaction, A, 0, everybody).leases[0]
    leave(transaction, A)
    again = attend(transaction, A, 0, everybody).leases[0]

    assert again.generation > first.generation
    with pytest.raises(CommitFailedError):
        commit(transaction, "g", "a", {0: (first.generation, 1, ""), 1: (again.generation, 1, "")})
    assert committed(transaction) == {0: 0, 1: 0, 2: 0, 3: 0}


def test_members_with_different_topics_share_only_what_both_read(transaction: Transaction) -> None:
    other = msgspec.structs.replace(B, topics={})

    attend(transaction, other, 0, everybody)

    assert set(attend(transaction, A, 0, everybody).leases) == {0, 1, 2, 3}
    assert groups.attend(transaction, other, 0, everybody).leases == {}
