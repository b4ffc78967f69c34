"""What the API does from the signal that stops it until it has ended."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Final, TypeVar

from shared.errors import Unavailable
from shared.runtime.probes import Troubles

T = TypeVar("T")

ANSWERS_S: Final = 2.0  # answers and bodies under way get this long; three seconds later the server cuts what is left


class Stopping:
    """The stop of one API: first it isn't ready, then what is under way ends by itself or by an error."""

    def __init__(self) -> None:
        self._begun = False
        self._ended = False
        self._limits: set[asyncio.Timeout] = set()

    def begin(self) -> None:
        """Be unready from now on."""
        self._begun = True

    def end(self, answers_s: float = ANSWERS_S) -> None:
        """End answers, and bodies that are still arriving, after `answers_s` seconds."""
        self._begun = True
        asyncio.get_running_loop().call_later(answers_s, self._end)

    def _end(self) -> None:
        self._ended = True
        for limit in self._limits:
            limit.reschedule(0.0)

    def of(self, troubles: Troubles) -> Troubles:
        """Return readiness checks with the stop among them."""

        async def checked() -> Mapping[str, str | None]:
            found = await troubles()
            return {**found, "server": "it is stopping"} if self._begun else found

        return checked

    async def limited(self, waited: Awaitable[T], most_s: float | None = None) -> T:
        """Return the result of what is waited for; it is cancelled once answers have to end.

        Raises:
            Unavailable: they have to end. TimeoutError: it took longer than `most_s`.
        """
        try:
            async with asyncio.timeout(0.0 if self._ended else most_s) as limit:
                self._limits.add(limit)
                try:
                    return await waited
                finally:
                    self._limits.discard(limit)
        except TimeoutError:
            if not (self._ended and limit.expired()):
                raise
            raise Unavailable("the server is stopping") from None
