import pytest

from services.ingest_worker.extract import Hints, extract

_SRT = """1
00:00:01,000 --> 00:00:04,000
Das Wehr wurde

2
00:00:04,100 --> 00:00:06,000
<i>im Herbst</i> geöffnet.

3
01:00:07,000 --> 01:00:09,000
Und dann?
"""
_VTT = """WEBVTT - talk

STYLE
::cue { color: red }

NOTE made by hand

00:01.000 --> 00:03.000 align:start
<v Anna Holm>The lock &amp; the weir

00:03.000 --> 00:05.500
<v Anna Holm>are closed

00:20.000 --> 00:22.000
<v Olaf>Since when
"""


def _text(data: str, filename: str) -> str:
    return extract(data.encode(), Hints(filename=filename)).text


@pytest.mark.parametrize("filename", ["a.srt", "a.txt"])
def test_cues_are_joined_to_sentences_with_their_time(filename: str) -> None:
    assert _text(_SRT, filename) == "[00:00:01] Das Wehr wurde im Herbst geöffnet.\n\n[01:00:07] Und dann?"
    assert _text(_SRT.replace("\n", "\r\n"), filename) == _text(_SRT, filename)


def test_webvtt_names_its_speakers_and_a_silence_ends_a_paragraph() -> None:
    assert _text(_VTT, "a.vtt") == (
        "[00:00:01] Anna Holm: The lock & the weir are closed\n\n[00:00:20] Olaf: Since when"
    )


def test_captions_that_roll_are_read_once() -> None:
    rolling = "WEBVTT\n\n00:01.000 --> 00:02.000\nthe lock\n\n00:02.000 --> 00:03.000\nthe lock\nis closed\n\n"

    assert _text(rolling, "a.vtt") == "[00:00:01] the lock is closed"


def test_without_cues_the_text_stays() -> None:
    assert _text("no subtitles", "a.srt") == "no subtitles"
