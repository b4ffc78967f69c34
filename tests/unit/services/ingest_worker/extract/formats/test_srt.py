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


def test_lines_of_chinese_and_japanese_are_joined_without_blanks() -> None:
    cues = ["水塔在一九三六年", "由林先生建成。", "- 东 西？", "- 咖啡馆 Tern", "有 7 张桌子，"]
    source = "".join(f"00:00:0{at},000 --> 00:00:0{at},900\n{said}\n\n" for at, said in enumerate(cues))

    assert _text(source, "a.srt") == (
        "[00:00:00] 水塔在一九三六年由林先生建成。\n\n[00:00:02] - 东 西？\n\n[00:00:03] - 咖啡馆 Tern 有 7 张桌子，"
    )
    korean = "00:00:01,000 --> 00:00:02,000\n물탑은 임 씨가\n지었다.\n"
    assert _text(korean, "a.srt") == "[00:00:01] 물탑은 임 씨가 지었다."


def test_without_cues_the_text_stays() -> None:
    assert _text("no subtitles", "a.srt") == "no subtitles"
