"""The expected errors of a step: the input is at fault, or a service is away. Any other exception is a bug."""


class PipelineError(Exception):
    """An expected failure: `sentence` is for people, `code` for programs."""

    def __init__(self, sentence: str, code: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code


class Rejected(PipelineError):  # noqa: N818 - reads as what happened to the input
    """The input is at fault: dead-letter the record, commit, continue."""

    def __init__(self, sentence: str, code: str = "invalid") -> None:
        super().__init__(sentence, code)


class Unavailable(PipelineError):  # noqa: N818 - reads as what happened to the world
    """The log, store, embedder or blob service is away: retry until it is back, commit nothing."""

    def __init__(self, sentence: str, code: str = "unavailable") -> None:
        super().__init__(sentence, code)


class RetryLater(Unavailable):
    """The input is probably at fault: retry it a few times without holding up other records.

    `after_s` is the pause before the next try. After `tries` tries the input is rejected with this sentence and
    code. If `tries` is None, the code that raises this must raise Rejected to end the retries.
    """

    def __init__(self, sentence: str, code: str, *, after_s: float, tries: int | None = None) -> None:
        super().__init__(sentence, code)
        self.after_s = after_s
        self.tries = tries
