"""Threads that use a server beside the test, until its block ends."""

import asyncio
import threading
from collections.abc import Callable
from typing import Self


class Background:
    """Runs each task in a thread of its own for as long as the block runs; a task ends once `stopping` is set."""

    def __init__(self, *tasks: Callable[[], None]) -> None:
        self.stopping = threading.Event()
        self._threads = [threading.Thread(target=task) for task in tasks]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for thread in self._threads:
            thread.join()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)
