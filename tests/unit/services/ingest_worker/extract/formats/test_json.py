import json
from typing import Any

import pytest

from services.ingest_worker.extract import Hints, extract

_SHIPS = [["Wren", 4], ["Great Skua", 6], ["Rook", 9]]


def _text(data: str, filename: str = "a.json") -> str:
    return extract(data.encode(), Hints(filename=filename)).text


def test_what_somebody_laid_out_stays_as_it_is() -> None:
    written = '{"a": 1,\n "b": [NaN, 2]}'

    assert _text(written) == written


def test_what_stands_on_one_line_is_laid_out() -> None:
    value = {"title": "Tides", "rows": list(range(200)), "more": "ü"}

    numbers = f"[{', '.join(map(str, range(200)))}]"
    assert _text(json.dumps(value)) == f'{{\n  "title": "Tides",\n  "rows": {numbers},\n  "more": "ü"\n}}'


def test_long_lines_of_json_lines_are_laid_out_one_by_one_and_a_cut_one_is_kept() -> None:
    cut = '{"text": "cut'

    assert _text(json.dumps({"a": "x" * 600}) + "\n" + cut, "a.jsonl") == f'{{\n  "a": "{"x" * 600}"\n}}\n\n{cut}'


@pytest.mark.parametrize("data", ["[" * 60_000, "{" + '"a":{' * 60_000, '"\\ud800"' + " " * 600 + "1"])
def test_what_is_no_json_is_text(data: str) -> None:
    assert _text(data) == data


def test_the_objects_of_a_list_are_paragraphs_with_their_fields() -> None:
    crews = [{"Nom": "Petrel", "patron": {"nom": "Inès", "âge": 41}, "quais": [1, 2]}, {"Nom": "Skua", "vide": None}]
    records = "Nom: Petrel; patron nom: Inès; patron âge: 41; quais: 1, 2\n\nNom: Skua"

    assert _text(json.dumps(crews)) == records
    assert _text(json.dumps({"port": "Brest", "navires": crews})) == f"port: Brest\n\n# navires\n\n{records}"
    assert _text("\n".join(map(json.dumps, crews)), "a.ndjson") == records


def test_the_objects_within_an_object_begin_with_its_first_field() -> None:
    orders = [{"order": number, "items": [{"part": "bolt"}, {"part": "nut"}]} for number in (1, 2)]

    assert _text(json.dumps(orders)) == "\n\n".join(
        f"order: {number}{part}" for number in (1, 2) for part in ("", "; part: bolt", "; part: nut")
    )


def test_a_number_keeps_its_digits_and_a_wrong_line_is_kept() -> None:
    assert _text('{"v": 1.10}\n{"v": 12345678901234567890123}\nno json\n', "a.jsonl") == (
        "v: 1.10\n\nv: 12345678901234567890123\n\nno json"
    )


@pytest.mark.parametrize(
    "settings",
    [
        '{\n "port": 8081,\n "hosts": [{"name": "a"}, {"name": "b"}],\n "text": "' + "x" * 300 + '"\n}',
        '{"log": {"level": "info"}, "hosts": [{"name": "a"}], "more": {"text": "long enough to be most of the file"}}',
        '{"hosts": [{"name": "a"}], "ports": [{"number": "1"}, 2], "text": "long enough to be most of the file"}',
        '{"names": ["a", "b"], "count": 2}',
        '{"hint": "write <b> or <p>", "sum": "a < b > c", "xml": "<ship>Skua</ship>", "open": "<p>It rises"}',
        '{"page": [1, 2], "of": {"rows": [[1, 2], [3, 4]]}}',
    ],
)
def test_settings_stay_as_they_are_written(settings: str) -> None:
    assert _text(settings) == settings


@pytest.mark.parametrize(
    "beside", [{"count": 2}, {"next": None, "more": False, "url": "https://example.org/" + "x" * 99}]
)
@pytest.mark.parametrize("count", [1, 2])
def test_a_page_of_records_is_records(beside: dict[str, object], count: int) -> None:
    text = _text(json.dumps({**beside, "data": [{"id": 1, "nom": "Skua"}, {"id": 2, "nom": "Alk"}][:count]}))

    assert text.split("# data\n\n")[1] == "\n\n".join(["id: 1; nom: Skua", "id: 2; nom: Alk"][:count])


def test_a_list_of_numbers_is_on_one_line() -> None:
    assert _text('{\n "depths": [\n  4,\n  -3.5,\n  null\n ],\n "names": [\n  "a"\n ]\n}') == (
        '{\n "depths": [4, -3.5, null],\n "names": [\n  "a"\n ]\n}'
    )


def test_parts_of_pages_are_read_as_their_text() -> None:
    page = "<p>Tide <b>rises</b> &amp; falls.</p><ul><li>Noon</li></ul>"

    assert _text(json.dumps([{"id": 1, "body": page}, {"id": 2, "body": "a < b"}])) == (
        "id: 1; body: Tide rises & falls. - Noon\n\nid: 2; body: a < b"
    )
    assert _text(json.dumps({"title": "Tide", "content": {"rendered": page + page}})) == (
        "title: Tide; content rendered: Tide rises & falls. - Noon Tide rises & falls. - Noon"
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"note": "<b>x</b>", "prod": {"eu": {"db": {"main": {"host": "h1"}}}, "us": {"db": {"main": {"host": "h2"}}}}},
        {"paths": {"/a": {"get": {"description": "<p>All of it.</p>", "responses": {"200": {"description": "Done"}}}}}},
        {"save": "Save", "cancel": "Cancel", "terms": "I accept the <a>terms</a>", "hint": "<em>Needed</em>"},
    ],
)
def test_settings_with_a_little_markup_stay_as_they_are_written(settings: dict[str, object]) -> None:
    assert _text(json.dumps(settings)) == json.dumps(settings)


def test_rows_with_a_header_are_read_as_those_of_a_csv_file() -> None:
    rows = [["Name", "Âge", "Ville"], ["Maud", 31, "Lens"], ["Rémi", 44, None]]

    assert _text(json.dumps(rows)).split("\n\n")[1:] == ["Name: Maud; Âge: 31; Ville: Lens", "Name: Rémi; Âge: 44"]
    assert _text('[["Ann", "Kiel"], ["Bo", "Ulm"], ["Cy", "Bonn"]]') == "Ann | Kiel\n\nBo | Ulm\n\nCy | Bonn"


@pytest.mark.parametrize(
    "written",
    [
        "[[10.1, 53.2], [10.4, 53.9], [10.5, 54]]",
        '[["a"], ["b"], ["c"]]',
        '[["a", "b"], ["c"], ["d", "e"]]',
        '[["a", ["b"]], ["c", []], ["d", {}]]',
        '["a", "b", "c"]',
        '[["/api", "http://x"], ["/", "http://y"]]',
        '{"rows": [["a", "b"], ["c", "d"], ["e", "f"]]}',
    ],
)
def test_other_lists_stay_as_they_are_written(written: str) -> None:
    assert _text(written) == written


def test_lists_of_one_object_keep_their_name() -> None:
    orders = [{"id": number, "billing": [{"city": "Bonn"}], "shipping": [{"city": "Ulm"}]} for number in (1, 2)]

    assert _text(json.dumps(orders)) == "\n\n".join(
        f'id: {number}; billing: [{{"city": "Bonn"}}]; shipping: [{{"city": "Ulm"}}]' for number in (1, 2)
    )


@pytest.mark.parametrize("start", ["", "data:image/png;base64,"])
def test_a_picture_in_base64_is_left_out(start: str) -> None:
    picture = start + "iVBORw0KGgoAAAANSUhEUgAA" * 20

    assert _text(json.dumps([{"nom": "Skua", "photo": picture}, {"nom": "Petrel", "code": "ACGT" * 99}])) == (
        "nom: Skua\n\nnom: Petrel; code: " + "ACGT" * 99
    )


def test_objects_and_values_in_one_list_are_all_read() -> None:
    assert _text(json.dumps(["First.", {"port": "Hull", "depth": 9}, 7])) == "First.\n\nport: Hull; depth: 9\n\n7"
    assert _text(json.dumps([{"id": 1, "tags": ["a", {"by": "Ann", "at": 2}]}, {"id": 2}])) == (
        "id: 1; tags: a, by: Ann, at: 2\n\nid: 2"
    )


def test_a_text_in_parts_is_one_text_and_stands_once() -> None:
    bold = {"type": "bold", "text": "7741"}
    link = {"type": "text_link", "text": "the list", "href": "https://a.example"}
    plain = [{"type": "plain", "text": each} for each in ("Code ", ", see ", ".")]
    said = [
        {"from": "Gro", "text": ["Code ", bold, ", see ", link, "."],
         "text_entities": [plain[0], bold, plain[1], link, plain[2]]},
        {"from": "Bo", "text": "Code 7", "text_entities": [{"type": "plain", "text": "Code 7"}]},
    ]  # fmt: skip

    assert _text(json.dumps({"messages": said})) == (
        "# messages\n\nfrom: Gro; text: Code 7741, see the list (https://a.example).\n\nfrom: Bo; text: Code 7"
    )


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ({"a": ["Note", {"type": "warn", "text": "Hot"}]}, "a: Note, type: warn, text: Hot"),
        ({"a": ["Oar, ", {"type": "size", "text": "big"}]}, "a: Oar,, type: size, text: big"),
        ({"a": ["Oar, ", {"type": "bold", "text": "big", "qty": 5}]}, "a: Oar,, type: bold, text: big, qty: 5"),
        ({"q": "red", "a": [{"type": "color", "text": "red"}]}, 'q: red; a: [{"type": "color", "text": "red"}]'),
        (
            {"q": "Quay", "a": [{"type": "text_link", "text": "Quay", "href": "b"}]},
            'q: Quay; a: [{"type": "text_link", "text": "Quay", "href": "b"}]',
        ),
        ({"a": ["Depth ", {"unit": "m", "text": "7"}]}, "a: Depth, unit: m, text: 7"),
        ({"a": ["x", {"type": "b", "text": 7}, 3]}, "a: x, type: b, text: 7, 3"),
        (
            {"q": "Hi", "a": [{"type": "b", "text": "Hi"}, {"type": "b", "text": "Ho"}]},
            "q: Hi\n\nq: Hi; type: b; text: Hi\n\nq: Hi; type: b; text: Ho",
        ),
    ],
)
def test_other_lists_with_objects_keep_their_names(row: object, shown: str) -> None:
    assert _text(json.dumps([row, {"z": "1"}])) == f"{shown}\n\nz: 1"


@pytest.mark.parametrize("name", ["name", "key", "field", "label", "title"])
def test_listed_pairs_of_a_name_and_a_value_are_fields(name: str) -> None:
    pairs = [{name: "Severity", "value": "High"}, {name: "Cause", "value": ["disk", "heat"]}]
    issue = {"id": "A-1", "more": pairs}

    assert _text(json.dumps([issue, issue])).split("\n\n")[0] == (
        "id: A-1; more Severity: High; more Cause: disk, heat"
    )


def test_pairs_of_one_name_stay_apart() -> None:
    pairs = [{"name": "Berth", "value": "4"}, {"name": "Berth", "value": "5"}]

    assert _text(json.dumps([{"id": "A", "more": pairs}, {"id": "B", "more": []}])).split("\n\n")[1:3] == [
        "id: A; name: Berth; value: 4",
        "id: A; name: Berth; value: 5",
    ]


@pytest.mark.parametrize(
    "table",
    [
        {"columns": ["ship", "crew"], "index": [0, 1, 2], "data": _SHIPS},
        {"columns": [{"name": "ship", "type": "text"}, {"name": "crew"}], "rows": _SHIPS},
        {"data": {"cols": [{"name": "ship"}, {"name": "crew"}], "rows": _SHIPS}, "count": 2},
        {"range": "A1:B4", "values": [["ship", "crew"], *_SHIPS]},
    ],
)
def test_rows_of_values_have_the_names_that_stand_beside_or_above_them(table: dict[str, Any]) -> None:
    assert _text(json.dumps(table)).endswith("ship: Wren; crew: 4\n\nship: Great Skua; crew: 6\n\nship: Rook; crew: 9")


def test_points_of_a_line_are_no_table() -> None:
    line = json.dumps(
        {"type": "Line", "points": [[1, 2], [3, 4], [5, 6]], "kinds": ["one", "two"], "ends": [["a", "b"]]}
    )

    assert "[1, 2]" in _text(line)
