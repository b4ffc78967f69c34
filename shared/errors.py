"""The two ways a step can fail; everything else is a bug and should be loud."""


class PipelineError(Exception):
    """A failure somebody can act on: `sentence` for people, `code` for programs."""

    def __init__(self, sentence: str, code: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code


class Rejected(PipelineError):  # noqa: N818 - reads as what happened to the input
    """The input is at fault: dead-letter it, commit, go on."""

    def __init__(self, sentence: str, code: str = "invalid") -> None:
        super().__init__(sentence, code)


class Unavailable(PipelineError):  # noqa: N818 - reads as what happened to the world
    """Our log, store, embedder or blob service is away: wait, retry for ever, commit nothing."""

    def __init__(self, sentence: str, code: str = "unavailable") -> None:
        super().__init__(sentence, code)


class RetryLater(Unavailable):
    """The input is probably at fault: try it a few times more, and let everything else go on meanwhile.

    `after_s` is the pause before the next try. After `tries` of them the input is rejected, with this sentence and
    code; with None, whoever raises this ends the tries by raising Rejected.
    """

    def __init__(self, sentence: str, code: str, *, after_s: float, tries: int | None = None) -> None:
        super().__init__(sentence, code)
        self.after_s = after_s
        self.tries = tries
