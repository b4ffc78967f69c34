"""Several servers of one embedding model as one: each call goes to the least busy server that works."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from shared.embedder.served import EmbeddingServer, Served, loop_time
from shared.errors import Unavailable
from shared.model_server.http import BadAnswer
from shared.settings import ConfigurationError

REST_S: Final = 10.0  # a server that failed is left alone for this long

log = structlog.get_logger(__name__)


class _Server:
    """One of the servers, and what is known about it."""

    def __init__(self, model: EmbeddingServer) -> None:
        self.model = model
        self.served: Served | None = None  # None: not compared with the others yet
        self.busy = 0  # texts being embedded
        self.rests_until = 0.0


class Servers:
    """Several servers of one model. They must agree on its identity and dimension, so that their vectors compare.

    A server that fails rests for ten seconds, and its call goes to the next one. A text counts as refused only when
    no server accepts it.
    """

    def __init__(self, models: Sequence[EmbeddingServer], clock: Callable[[], float] = loop_time) -> None:
        """Take the same model on each server; `clock` (seconds) is for tests."""
        self._servers = [_Server(model) for model in models]
        self._clock = clock
        self._served: Served | None = None

    @property
    def server(self) -> str:
        """Return the servers' names for error messages."""
        return ", ".join(each.model.server for each in self._servers)

    @property
    def name(self) -> str:
        return self._servers[0].model.name

    async def describe(self) -> Served:
        """Return the model as the servers that can be reached describe it; its longest input is the shortest of theirs.

        Raises:
            Unavailable: no server can be reached.
            ConfigurationError: one doesn't have the model, or has another one than the rest.
        """
        answers = await asyncio.gather(*(each.model.describe() for each in self._servers), return_exceptions=True)
        for each, answer in zip(self._servers, answers, strict=True):
            if isinstance(answer, Unavailable):
                each.served = None
                self._rest(each, answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                each.served = answer
        described = [each for each in self._servers if each.served is not None]
        if not described:
            raise next(answer for answer in answers if isinstance(answer, Unavailable))
        first, *others = described
        for other in others:
            if not _same(first.served, other.served):
                raise ConfigurationError(
                    f"SLUICE_EMBEDDER: {self.name!r} on {other.model.server} is another model than on "
                    f"{first.model.server}; their vectors can't be compared"
                )
        assert first.served is not None
        longest = min(each.served.longest for each in described if each.served is not None)
        self._served = Served(identity=first.served.identity, dimension=first.served.dimension, longest=longest)
        return self._served

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the embedding of each text, from the least busy server that accepts the call.

        Raises:
            TooLong: the server accepts fewer texts, or only shorter ones.
            Unavailable: no server answered the call; the error is the first one's that answered at all.
        """
        refusal: Unavailable | None = None
        failed: Unavailable | None = None
        refused: list[_Server] = []
        for each in self._in_turn():
            each.busy += len(texts)
            try:
                await self._compare(each)
                embeddings = await each.model.embed(texts)
            except BadAnswer as error:  # perhaps because of a text: another server knows
                refused.append(each)
                refusal = refusal or error
            except Unavailable as error:
                failed = failed or error
                self._rest(each, error)
            else:
                for other in refused:
                    self._rest(other, refusal)
                return embeddings
            finally:
                each.busy -= len(texts)
        raise refusal or failed or AssertionError("there is at least one server")

    async def ping(self) -> None:
        """Return when one server answers. Raises Unavailable if none can be reached."""
        answers = await asyncio.gather(*(each.model.ping() for each in self._servers), return_exceptions=True)
        errors = [answer for answer in answers if answer is not None]
        if len(errors) == len(self._servers):
            raise errors[0]

    async def close(self) -> None:
        for each in self._servers:
            await each.model.close()

    def _in_turn(self) -> list[_Server]:
        """Return the servers that don't rest, least busy first; then those that do, the first to be tried again first.

        Resting servers are asked only where every other one fails: one answer is better than none.
        """
        now = self._clock()
        return sorted(self._servers, key=lambda each: (max(each.rests_until - now, 0.0), each.busy))

    async def _compare(self, each: _Server) -> None:
        """Describe a server that wasn't reached at the start.

        Raises:
            Unavailable: it still isn't, or it has another model, or none.
        """
        if each.served is not None:
            return
        try:
            served = await each.model.describe()
        except ConfigurationError as error:
            raise Unavailable(str(error), "model_missing") from error
        if not _same(self._served, served):
            raise Unavailable(
                f"{each.model.server} has another model {self.name!r} than the other servers", "model_changed"
            )
        each.served = served

    def _rest(self, each: _Server, error: Unavailable | None) -> None:
        each.rests_until = self._clock() + REST_S
        log.warning("model_server_rests", server=each.model.server, seconds=REST_S, reason=str(error))


def _same(one: Served | None, other: Served | None) -> bool:
    return one is not None and other is not None and (one.identity, one.dimension) == (other.identity, other.dimension)
