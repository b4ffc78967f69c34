"""Where settings come from: the environment and `sluice.toml`. `shared.settings` defines them."""

import difflib
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

PREFIX: Final = "SLUICE_"
FILE: Final = "sluice.toml"  # in the working directory
FILE_VARIABLE: Final = "SLUICE_CONFIG"  # another file; empty: none
_OF_COMMANDS: Final = frozenset({"SLUICE_URL", "SLUICE_API_KEY", FILE_VARIABLE})
_OF_TESTS: Final = "SLUICE_TEST_"

# Kubernetes sets these in every pod for a service whose name begins with `sluice`, such as `sluice` or `sluice-store`.
_KUBERNETES_NAME: Final = re.compile(
    r"SLUICE(_[A-Z0-9_]{1,63})?_(SERVICE_(HOST|PORT(_[A-Z0-9_]{1,63})?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_KUBERNETES_VALUE: Final = re.compile(r"(tcp|udp|sctp)://\S+:\d+")


class GivenValue(msgspec.Struct, frozen=True):
    """A setting's value as it was given, and where: `environment`, or the path of the file."""

    value: Any
    source: str


class UnknownName(msgspec.Struct, frozen=True, kw_only=True):
    """A name that looks like a setting and is none."""

    name: str
    source: str
    nearest: str | None  # the setting with the most similar name

    def __str__(self) -> str:
        """Return the sentence that names it."""
        place = "" if self.source == "environment" else f" in {self.source}"
        meant = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{self.name}{place} is not a setting{meant}"


class GivenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The values of environment and file, by the settings' names in lower case and without the prefix."""

    values: dict[str, GivenValue]
    unknown: tuple[UnknownName, ...]
    kubernetes: tuple[str, ...]  # variables that Kubernetes set for a service, which are ignored
    file: str | None  # path of the file that was read


def given_settings(
    settings: Collection[str], environment: Mapping[str, str], secrets: Collection[str] = ()
) -> GivenSettings:
    """Return what is given for the settings; the environment wins over the file.

    A secret may stand in a file of its own, which `SLUICE_…_FILE` names, or the key `…_file`.

    Raises:
        ValueError: a file can't be read, or a secret is given twice; the message is one sentence.
    """
    known = {*settings, *(f"{name}_file" for name in secrets)}
    variables = {name.upper(): value for name, value in environment.items() if name.upper().startswith(PREFIX)}
    kubernetes = {name for name, value in variables.items() if _of_kubernetes(name, value)}
    own = {name: value for name, value in variables.items() if name not in kubernetes}
    path, content = _file(environment)
    values = {name: GivenValue(_as_text(value), str(path)) for name, value in content.items() if name in known}
    for name, value in own.items():
        if (field := name.removeprefix(PREFIX).lower()) in known:
            values[field] = GivenValue(value, "environment")
    for name in secrets:
        _read_secret(name, values)
    return GivenSettings(
        values=values,
        unknown=(*_unknown_variables(own, known), *_unknown_keys(content, known, str(path))),
        kubernetes=tuple(sorted(kubernetes)),
        file=str(path) if path is not None else None,
    )


def _of_kubernetes(name: str, value: str) -> bool:
    if _KUBERNETES_NAME.fullmatch(name):
        return True
    return name.endswith("_PORT") and _KUBERNETES_VALUE.fullmatch(value) is not None


def _file(environment: Mapping[str, str]) -> tuple[Path | None, dict[str, Any]]:
    """Return the file's path and content; None and nothing where there is none."""
    named = environment.get(FILE_VARIABLE)
    if named == "":
        return None, {}
    path = Path(named or FILE)
    if named is None and not path.exists():
        return None, {}
    try:
        return path, tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from error


def _read_secret(name: str, values: dict[str, GivenValue]) -> None:
    """Replace the value that names a secret's file by what the file says."""
    named, given = values.pop(f"{name}_file", None), values.get(name)
    if named is None or not named.value:
        return
    own = named.source == "environment"
    shown = f"{PREFIX}{name.upper()}_FILE" if own else f"{named.source}: {name}_file"
    if given is not None and given.value:
        if given.source == named.source:
            raise ValueError(
                f"{shown} is set, and so is {shown.removesuffix('_FILE').removesuffix('_file')}: one may be"
            )
        if not own:
            return
    if os.path.lexists(str(named.value)):  # else it may be the secret itself
        shown = f"{shown}={named.value}"
    try:
        secret = Path(str(named.value)).read_text(encoding="utf-8-sig").strip()
    except OSError as error:
        raise ValueError(f"{shown} can't be read: {error.strerror}") from None  # the error has the value, too
    except UnicodeDecodeError as error:
        raise ValueError(f"{shown} is not UTF-8") from error
    if not secret:
        raise ValueError(f"{shown} is empty")
    values[name] = GivenValue(secret, str(named.value))


def _as_text(value: Any) -> Any:
    """Return a value of the file as an environment variable would have it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value


def _unknown_variables(variables: Mapping[str, str], known: Collection[str]) -> Iterator[UnknownName]:
    names = {*(f"{PREFIX}{name.upper()}" for name in known), *_OF_COMMANDS}
    for name in sorted(set(variables) - names):
        if not name.startswith(_OF_TESTS):
            yield UnknownName(name=name, source="environment", nearest=_nearest(name, names))


def _unknown_keys(content: Mapping[str, Any], known: Collection[str], path: str) -> Iterator[UnknownName]:
    for name in sorted(set(content) - set(known)):
        meant = _nearest(name.lower().removeprefix(PREFIX.lower()).replace("-", "_"), known)
        yield UnknownName(name=name, source=path, nearest=meant)


def _nearest(name: str, names: Collection[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, sorted(names), n=1)), None)
