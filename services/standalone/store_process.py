"""The embedded store as a process of its own, for workers of one machine. `sluice store`."""

from contextlib import AsyncExitStack
from functools import partial

from prometheus_client import CollectorRegistry

from shared.runtime.data_lock import lock_data_folder
from shared.runtime.process import RunningService
from shared.runtime.resources import store_troubles
from shared.settings import ConfigurationError, Settings
from shared.store.open import open_store


async def start(settings: Settings, stack: AsyncExitStack) -> RunningService:
    """Return the started store; other processes reach it through SLUICE_DATA.

    Raises:
        ConfigurationError: SLUICE_STORE names a server, or the folder is in use.
        Unavailable: a collection can't be opened.
    """
    if not settings.embeds_store:
        raise ConfigurationError(f"SLUICE_STORE={settings.store} has a process already; only edge: needs this one")
    settings.data.mkdir(parents=True, exist_ok=True)
    stack.enter_context(lock_data_folder(settings.data))
    store = open_store(settings)
    stack.push_async_callback(store.close)
    await store.start()
    return RunningService(troubles=partial(store_troubles, store), registry=CollectorRegistry())
