"""The processes that the crash tests kill.

One process imports everything once and forks a child per line of its input (JSON: see `Order`), so a crash
costs milliseconds. What a child was promised by the log, it writes down before it goes on.
"""

import asyncio
import os
import resource
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec

from shared.errors import Unavailable
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog, compaction, upkeep
from shared.topics import Topic

TOPICS = (
    Topic(name="events", partitions=2),
    Topic(name="truth", partitions=1, cleanup="compact", retention_ms=None),
    Topic(name="old", partitions=1, retention_ms=1),
)


class Order(msgspec.Struct):
    """What a child shall do, and when it shall die."""

    path: str
    journal: str
    job: str
    die_at: str = ""  # a step of the driver …
    nth: int = 0  # … when it is reached for this time
    die_after_s: float = 0.0
    processes: int = 1
    name: str = ""


class Entry(msgspec.Struct):
    """A promise of the log: a record is stored, an offset is committed, or a step was reached so often."""

    kind: str
    topic: str = ""
    partition: int = 0
    offset: int = 0
    key: str = ""
    value: str = ""


class Journal:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, entry: Entry) -> None:
        os.write(self._file, msgspec.json.encode(entry) + b"\n")


def entries(path: Path) -> list[Entry]:
    """Return the whole entries of a journal; a kill may have cut the last one."""
    return [msgspec.json.decode(line, type=Entry) for line in path.read_bytes().split(b"\n")[:-1]]


class Child:
    def __init__(self, order: Order) -> None:
        self.order = order
        self.journal = Journal(order.journal)
        self.steps: Counter[str] = Counter()
        self.log = SqliteLog(Path(order.path), step=self.step)

    def step(self, name: str) -> None:
        self.steps[name] += 1
        if name == self.order.die_at and self.steps[name] == self.order.nth:
            os.kill(os.getpid(), signal.SIGKILL)

    async def run(self) -> None:
        await self.log.start()
        await self.log.ensure_topics(TOPICS)
        self.broker = self.log.broker("child")
        await self.broker.start()
        jobs = {
            "tour": self.tour,
            "load": self.load,
            "append": self.append,
            "full": self.full,
            "fork": self.fork,
        }
        await jobs[self.order.job]()
        await self.broker.stop()
        await self.log.stop()

    async def send(self, topic: str, key: str, value: str) -> None:
        sent = await publish(self.broker, topic, value.encode(), key=key.encode())
        self.journal.note(Entry("stored", topic, sent.partition, sent.offset, key, value))

    async def round(self, name: str, size: int = 0) -> None:
        await asyncio.gather(
            *(self.send("events", f"k{n}", f"{name}.{n}" + "x" * size) for n in range(10)),
            *(self.send("truth", f"k{n % 3}", f"{name}.{n}") for n in range(10)),
            self.send("old", "k", name),
        )

    async def join(self) -> None:
        self.consumer = self.log.consumer(group_id="g", auto_offset_reset="none")
        self.consumer.subscribe(["events", "truth"])
        await self.consumer.start()

    async def read(self) -> None:
        await self.consumer.getmany(timeout_ms=1000)
        offsets = {tp: await self.consumer.position(tp) for tp in self.consumer.assignment()}
        await self.consumer.commit(offsets)
        for tp, offset in offsets.items():
            self.journal.note(Entry("committed", tp.topic, tp.partition, offset))

    async def tour(self) -> None:
        """Everything the driver does, once or a few times."""
        await self.join()
        for number in range(3):
            await self.round(f"r{number}")
            await self.read()
        await compaction.compact(self.log._storage, "truth")
        await upkeep.retain(self.log._storage, "old")  # notes where it ends
        await upkeep.retain(self.log._storage, "old")
        await self.log.keep_up()
        await self.round("last")
        await self.consumer.stop()
        for name, count in self.steps.items():
            self.journal.note(Entry("step", name, offset=count))

    async def load(self) -> None:
        """Until killed."""
        await self.join()
        number = 0
        while True:
            await self.round(f"{self.order.name}.{number}", size=3000)
            await self.read()
            if number % 5 == 4:
                await self.log.keep_up()
            number += 1

    async def append(self) -> None:
        for number in range(40):
            await asyncio.gather(*(self.send("events", f"k{n}", f"{os.getpid()}.{number}") for n in range(5)))

    async def full(self) -> None:
        """Fill the disk, as far as this process may; then there is room again."""
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
        refused = 0
        number = 0
        while refused < 3:
            try:
                await self.send("events", "k", f"{number}." + "x" * 20_000)
            except Unavailable:
                refused += 1
            number += 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await self.send("events", "k", "room again")
        self.journal.note(Entry("done"))

    async def fork(self) -> None:
        """Die as the member of a group, and leave a forked child behind."""
        await self.join()
        if (pid := os.fork()) == 0:
            signal.alarm(20)
            signal.pause()
        self.journal.note(Entry("forked", offset=pid))
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=Order)
        pids = []
        for _ in range(order.processes):
            if (pid := os.fork()) == 0:
                signal.alarm(60)  # it ends, whatever becomes of the test
                asyncio.run(Child(order).run())
                os._exit(0)
            pids.append(pid)
        if order.die_after_s:
            time.sleep(order.die_after_s)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        sys.stdout.buffer.write(msgspec.json.encode(statuses) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
