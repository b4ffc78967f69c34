"""The checks of `sluice doctor`, each with its fix."""

import asyncio
import errno
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from services.operator_cli.client import Client
from services.operator_cli.errors import CommandError
from shared import sandbox
from shared.contracts import DEFAULT_TENANT, BlobRef
from shared.errors import Rejected, Unavailable, masked
from shared.runtime.settings_report import without_effect
from shared.setting_sources import GivenSettings
from shared.settings import ConfigurationError, Settings, load_settings, read_given

if TYPE_CHECKING:
    from shared.embedder.in_process import Loaded

Verdict = Literal["ok", "warning", "failed"]

SPACE_NEEDED: Final = 500 * 1000**2  # bytes: enough for the log, index and blobs of about ten thousand pages
ROOM_TO_REWRITE: Final = 1.5  # free space needed to rewrite the store, in sizes of the store
MANY_POINTS: Final = 500_000  # search is exact, so its time grows with the number of points
LARGE_LOG: Final = 20 * 1000**3  # bytes
CONNECT_S: Final = 3.0
BUCKET_S: Final = 10.0
_PORTS: Final = {
    "http": 80,
    "https": 443,
    "kafka": 9092,
    "ollama": 11434,
    "openai": 443,
    "qdrant+http": 6333,
    "qdrant+https": 6333,
}


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding; `fix` says what to do unless all is well."""

    name: str
    verdict: Verdict
    found: str
    fix: str | None = None


def examine() -> Iterator[Check]:
    """Yield the checks one by one, without passwords; a check that can't run says why."""
    return (msgspec.structs.replace(check, found=masked(check.found)) for check in _checks())


def _checks() -> Iterator[Check]:
    yield Check("python", "ok", f"Python {sys.version_info.major}.{sys.version_info.minor}")
    try:
        settings = load_settings()
    except ConfigurationError as error:
        yield Check("settings", "failed", str(error), "correct the variable named above")
        return
    yield names(read_given())
    if settings.keeps_data:
        yield folder(settings.data)
        yield space(settings.data)
    yield confinement()
    yield door(settings)
    yield from growth(settings)
    yield weights(settings.embedder)
    from shared.answers.open import entries  # parses SLUICE_CHAT; slow to import

    for variable, setting in (
        ("SLUICE_LOG", settings.log),
        ("SLUICE_STORE", settings.store),
        ("SLUICE_EMBEDDER", settings.embedder),
        ("SLUICE_CHAT", settings.chat),
        ("SLUICE_BLOBS", settings.blobs),
    ):
        for each in [url for _, url in entries(setting)] if variable == "SLUICE_CHAT" else [setting]:
            yield part(variable, each)


def names(given: GivenSettings) -> Check:
    """Return whether every given name is a setting. The values have been checked before."""
    found = "; ".join(without_effect(given)) or "every SLUICE_ variable has a valid value"
    if not given.unknown:
        return Check("settings", "ok", found)
    fix = "correct the name, or remove it; SLUICE_STRICT=on refuses to start with it"
    return Check("settings", "warning", found, fix)


def folder(data: Path) -> Check:
    """Return whether the data folder can be written or created."""
    there = _nearest(data)
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        state = "can be written" if there == data else f"will be created in {there}"
        return Check("folder", "ok", f"SLUICE_DATA={data} {state}")
    reason = "can't be written" if there.is_dir() else "is not a folder"
    return Check("folder", "failed", f"SLUICE_DATA={data}: {there} {reason}", "set SLUICE_DATA to another")


def space(data: Path) -> Check:
    """Return whether the disk of the data folder has enough space."""
    free = shutil.disk_usage(_nearest(data)).free
    shown = f"{free / 1000**3:.1f} GB are free for {data}"
    if free >= SPACE_NEEDED:
        return Check("disk", "ok", shown)
    needed = f"{SPACE_NEEDED / 1000**3:.1f} GB"
    return Check("disk", "warning", shown, f"free {needed}, or set SLUICE_DATA elsewhere")


def confinement() -> Check:
    """Return whether this system can confine the processes that parse files, and how."""
    command = [sys.executable, "-P", "-m", sandbox.__name__]
    ran = subprocess.run(command, env=sandbox.environment(), capture_output=True, text=True, check=False)  # noqa: S603 - ours
    return confined_by(ran.stdout.strip())


def confined_by(means: str) -> Check:
    """Return whether these means of confinement are enough."""
    if {"seccomp", "landlock"} <= set(means.split(", ")):
        return Check("sandbox", "ok", f"parsers are confined: {means}")
    if "seccomp" in means:
        found = (
            f"parsers are confined ({means}), but can read what this user can read, because this system has no Landlock"
        )
        return Check("sandbox", "warning", found, "use Linux 5.13 or newer with Landlock")
    found = "this system can't confine parsers: a file that takes one over can do what this user can"
    fix = "run Sluice on Linux, on x86-64 or aarch64, in a container that allows seccomp, or under a user of its own"
    return Check("sandbox", "warning", found, fix)


def door(settings: Settings) -> Check:
    """Return whether a Sluice server answers, or else whether its port is free."""
    try:
        with Client() as client:
            landing, ready = client.get(), client.readiness()
    except CommandError as error:
        return _port(settings, str(error))
    except ConfigurationError:  # port 0: the server takes any free port
        return Check("server", "ok", "none is looked for: SLUICE_PORT=0 takes any free port")
    if landing.get("name") != "Sluice":
        return _taken(settings, f"the server at {client.url} is not Sluice")
    found = f"Sluice {landing.get('version')} answers at {client.url}"
    troubles = [f"{name}: {trouble}" for name, trouble in ready.get("checks", {}).items() if trouble]
    if ready.get("status") == "not ready" and not troubles:
        troubles = ["set SLUICE_API_KEY to learn why"]
    if not troubles:
        details = [f"{name}: {detail}" for name, detail in ready.get("details", {}).items()]
        return Check("server", "ok", "; ".join((found, *details)))
    return Check(
        "server",
        "failed",
        f"{found}, but is not ready: {'; '.join(troubles)}",
        "repair the part named; the server then continues by itself",
    )


def growth(settings: Settings) -> Iterator[Check]:
    """Yield whether the data still suits one machine; nothing if no server reports the sizes of its files."""
    try:
        with Client() as client:
            live, dead, store = (
                client.metric(f"sluice_store_{name}") for name in ("live_points", "dead_points", "bytes")
            )
            topics, blobs = client.samples("sluice_log_bytes"), client.samples("sluice_blob_bytes")
    except (CommandError, ConfigurationError):  # `door` has reported it
        return
    if not live:
        return
    log = sum(topics.values())
    found = (
        f"{live:,.0f} points and {dead:,.0f} dead ones in {store / 1000**3:.1f} GB; "
        f"a log of {log / 1000**3:.1f} GB ({_largest(topics)}); {_owned(blobs)}"
    )
    free = shutil.disk_usage(_nearest(settings.data)).free
    if free < ROOM_TO_REWRITE * store:
        fix = f"free {(ROOM_TO_REWRITE * store - free) / 1000**3:.1f} GB more: the store needs room to drop dead points"
        yield Check("growth", "warning", found, fix)
    elif live > MANY_POINTS or log > LARGE_LOG:
        fix = "move to Kafka and a Qdrant server before searches become slow: docs/sizes.md"
        yield Check("growth", "warning", found, fix)
    else:
        yield Check("growth", "ok", found)


def _largest(topics: Mapping[str, float]) -> str:
    """Return the largest topics with their sizes."""
    largest = sorted(topics.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name} {size / 1000**3:.1f}" for name, size in largest) or "not measured yet"


def _owned(blobs: Mapping[str, float]) -> str:
    if not blobs:
        return "blobs have not been measured yet, which happens once a day"
    whole, unowned = sum(blobs.values()) / 1000**3, blobs.get("no", 0.0) / 1000**3
    return f"blobs of {whole:.1f} GB, {unowned:.1f} GB of them without an owner"


def _port(settings: Settings, answer: str) -> Check:
    if os.environ.get("SLUICE_URL"):
        return Check("server", "failed", answer, "start it, or set SLUICE_URL to where it is")
    from shared.runtime.listening import bound  # uvicorn is slow to import

    try:
        with bound(settings.host, settings.port):
            return Check("server", "ok", f"not running; port {settings.port} is free for `sluice serve`")
    except ConfigurationError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE:
            return _taken(settings, f"port {settings.port} is taken: {answer}")
        return Check("server", "failed", str(error), "set them to an address of this machine")


def _taken(settings: Settings, found: str) -> Check:
    return Check("server", "failed", found, f"set SLUICE_PORT to another, such as {settings.port + 1}")


def weights(setting: str) -> Check:
    """Return whether a model in this process loads, the built-in one unaltered; of a served one, what it is sent."""
    from shared.embedder.open import BUILT_IN, in_process  # numpy is slow to import
    from shared.embedder.served import prefixes_of

    async def loaded() -> "Loaded | None":
        if (embedder := in_process(setting)) is None:
            return None
        try:
            await embedder.start()
            return embedder.loaded
        finally:
            await embedder.close()

    try:
        known = asyncio.run(loaded())
    except ConfigurationError as error:
        fix = "install Sluice again" if setting in BUILT_IN else "correct SLUICE_EMBEDDER, or the folder"
        return Check("weights", "failed", str(error), fix)
    if known and setting in BUILT_IN:
        return Check("weights", "ok", f"{known.model.name} has the pinned hash, and loads")
    document, query = known[-2:] if known else prefixes_of(setting)
    sent = f"texts behind {document!r} and queries behind {query!r}" if query else "texts and queries as they are"
    found = f"{known.model.name} loads, and" if known else f"not needed by SLUICE_EMBEDDER={setting}, which"
    return Check("weights", "ok", f"{found} gets {sent}")


def part(variable: str, setting: str) -> Check:
    """Return whether the server that the setting names can be reached."""
    name = variable.removeprefix("SLUICE_").lower()
    if setting == "auto:":
        from shared.answers.open import open_models  # only needed for this setting

        answering = asyncio.run(open_models(setting)).default.name
        return Check(name, "ok", f"{variable}=auto: answers with {answering}")
    if setting.startswith("s3:"):
        return bucket(variable, setting)
    targets = list(_targets(setting))
    if not targets:
        return Check(name, "ok", f"{variable}={setting} is built in")
    refusals = [refusal for host, port in targets if (refusal := _refusal(host, port))]
    shown = ", ".join(f"{host}:{port}" for host, port in targets)
    if not refusals:
        return Check(name, "ok", f"{variable}: {shown} can be reached")
    return Check(name, "failed", f"{variable}: {'; '.join(refusals)}", f"start it, or set {variable} to where it is")


def bucket(variable: str, setting: str) -> Check:
    """Return whether the bucket accepts our credentials, lists objects, and reports a missing object as missing."""
    from shared.blobs.s3 import S3Blobs  # only needed for this setting
    from shared.blobs.s3_address import s3_address

    try:
        blobs = S3Blobs(s3_address(setting), timeout_s=BUCKET_S)
        asyncio.run(blobs.get(DEFAULT_TENANT, str(UUID(int=0)), BlobRef(sha256="0" * 64, size=0)))
    except Rejected:
        return Check("blobs", "ok", f"{variable}: the bucket can be read")
    except ConfigurationError as error:
        return Check("blobs", "failed", str(error), f"correct {variable}")
    except Unavailable as error:
        found = f"{variable}: {error.sentence}"
        return Check("blobs", "failed", found, f"start it, or set {variable} to where it is")
    raise AssertionError("the bucket returned an object whose hash is all zeros")


def _targets(setting: str) -> Iterator[tuple[str, int]]:
    """Yield host and port of every server in a setting such as `kafka://a:9092,b:9092` or `qdrant+http://q:6333`."""
    scheme, there, rest = setting.partition("://")
    if not there or scheme == "file":
        return
    fallback = _PORTS.get(scheme, _PORTS.get(scheme.rpartition("+")[2], 0))
    for server in rest.rpartition("@")[2].partition("/")[0].split(","):
        try:
            parsed = urlsplit(f"//{server}")
            yield parsed.hostname or "", parsed.port or fallback
        except ValueError:
            yield server, 0


def _refusal(host: str, port: int) -> str | None:
    try:
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except OSError as error:
        return f"{host}:{port} can't be reached: {error.strerror or error}"
    return None


def _nearest(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())
