import json

import pytest

from services.ingest_worker.extract import Hints, extract


def _text(data: str, filename: str = "a.json") -> str:
    return extract(data.encode(), Hints(filename=filename)).text


def test_what_somebody_laid_out_stays_as_it_is() -> None:
    written = '{"a": 1,\n "b": [NaN, 2]}'

    assert _text(written) == written


def test_what_stands_on_one_line_is_laid_out() -> None:
    value = {"title": "Tides", "rows": list(range(200)), "more": "ü"}

    assert _text(json.dumps(value)) == json.dumps(value, indent=2, ensure_ascii=False)


def test_long_lines_of_json_lines_are_laid_out_one_by_one_and_a_cut_one_is_kept() -> None:
    cut = '{"text": "cut'

    assert _text(json.dumps({"a": "x" * 600}) + "\n" + cut, "a.jsonl") == f'{{\n  "a": "{"x" * 600}"\n}}\n\n{cut}'


@pytest.mark.parametrize("data", ["[" * 60_000, "{" + '"a":{' * 60_000, '"\\ud800"' + " " * 600 + "1"])
def test_what_is_no_json_is_text(data: str) -> None:
    assert _text(data) == data
