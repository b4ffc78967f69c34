"""The error of an unavailable log, which both FastStream and our callers catch."""

from aiokafka.errors import KafkaError

from shared.errors import Unavailable


class LogUnavailable(Unavailable, KafkaError):  # type: ignore[misc]  # noqa: N818 - aiokafka has no types; named as its base
    """The log can't be read or written now; a write was stored completely or not at all.

    It has two bases: our callers retry an Unavailable; FastStream's loop catches a KafkaError, waits and reads again.
    """

    retriable = True
