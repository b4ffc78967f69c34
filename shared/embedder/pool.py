"""The embedding models of a process, each loaded once however many generations use it."""

import asyncio

from pydantic import SecretStr

from shared.embedder import Embedder
from shared.embedder.open import open_embedder


class EmbedderPool:
    """Opens embedders by their address, and closes all of them together."""

    def __init__(self, openai_api_key: SecretStr) -> None:
        self._key = openai_api_key
        self._open: dict[str, Embedder] = {}
        self._turn = asyncio.Lock()

    async def get(self, address: str) -> Embedder:
        """Return the embedder at the address, started.

        Raises:
            Unavailable: its server is away. ConfigurationError: there is no such model, or the address is wrong.
        """
        async with self._turn:
            if address not in self._open:
                embedder = open_embedder(address, self._key)
                try:
                    await embedder.start()
                except BaseException:
                    await embedder.close()
                    raise
                self._open[address] = embedder
            return self._open[address]

    async def keep_only(self, addresses: frozenset[str]) -> None:
        """Close the embedders that no address names."""
        async with self._turn:
            for address in self._open.keys() - addresses:
                await self._open.pop(address).close()

    async def close(self) -> None:
        """Close all of them."""
        await self.keep_only(frozenset())
