import logging

from shared.log.kafka import RateFilter


def an_error(values: object, level: int = logging.ERROR, message: str = "no answer from %s") -> logging.LogRecord:
    return logging.LogRecord("aiokafka.conn", level, "", 0, message, (values,), None)


def test_an_outage_is_told_once_in_a_while_and_then_how_often_it_was() -> None:
    now = 0.0
    quiet = RateFilter(every_s=10, clock=lambda: now)
    shown = []

    for now in range(25):
        record = an_error(now)
        if quiet.filter(record):
            shown.append(record.getMessage())

    assert shown == [
        "no answer from 0",
        "no answer from 10 (and 9 more like it)",
        "no answer from 20 (and 9 more like it)",
    ]


def test_other_sentences_and_mere_information_pass() -> None:
    quiet = RateFilter(clock=lambda: 0.0)

    assert quiet.filter(an_error(1))
    assert quiet.filter(an_error(1, message="%s closed the connection"))
    assert all(quiet.filter(an_error(1, level=logging.INFO)) for _ in range(3))
    assert not quiet.filter(an_error(2))
