"""A clock that tests set."""


class SetClock:
    """Seconds, as `now` says; they pass only when a test moves it."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
