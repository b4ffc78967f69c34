"""What can go wrong with a log, in words both FastStream and our callers understand."""

from aiokafka.errors import KafkaError

from shared.errors import Unavailable


class LogUnavailable(Unavailable, KafkaError):  # type: ignore[misc]  # noqa: N818 - aiokafka has no types; named as its base
    """The log can't be read or written now; nothing of the request was stored, or all of it was.

    It is both: our callers retry an Unavailable, FastStream's loop waits on a KafkaError and reads again.
    """

    retriable = True
