import pytest

from services.ingest_worker.extract.rows import labelled
from services.ingest_worker.extract.table_header import Covered, begins_with_data, find_header, is_figure, properties


def _rows(text: str) -> list[list[str]]:
    return [line.split(",") for line in text.split("\n")]


@pytest.mark.parametrize(
    "text",
    [
        "Name,Phone,Phone,City\nAda Pole,home only,desk line,Bath\nBo Reed,mobile first,reception,Hull",  # equal names
        "Item,1,2,3\nPlums,10,11,12\nFigs,20,21,22",  # numbers that count
        "Metric,2024-01-01,2024-02-01\nVisits,120,130\nReturns,7,8",  # dates
        "Boat,08:00,09:00\nWren,12,31\nRook,4,9",  # times
        "Stage,10%,20%,30%\nRed,5,6,7\nBlue,4,3,2",  # percentages
        "Port,2019,2020\nHull,3,4",  # years
        "Crew,Mon,Tue,Wed\nRed,early,late,off\nBlue,late,off,early",  # weekdays
        "Nr.,Bezeichnung,Menge\n1,Seil,4\n2,Anker,9",
        "Имя,Город\nАнна,Казань\nБорис,Пермь",
        "名前,都市\n佐藤,東京\n鈴木,大阪",
        "Room,Capacity\nBlue,30\nRed,12\nGreen,unknown\nWhite,40",  # a value isn't known
        "Station,Departs\nBath,08:10\nHull,cancelled\nYork,08:40\nEly,09:05",
        "Code,Remark\nA-1,the rope was worn and had to go\nA-2,nothing was found in the hold",
    ],
)
def test_a_first_row_that_differs_from_the_others_is_the_header(text: str) -> None:
    header = find_header(_rows(text))

    assert header is not None
    assert (header.at, header.rows, header.names) == (0, 1, _rows(text)[0])


@pytest.mark.parametrize(
    "text",
    [
        "Ada Pole,Bath,Painter\nBo Reed,Hull,Baker\nCy Lund,York,Sailor",
        "Ada,31,Bath\nBo,42,Hull\nCy,22,York",
        "Prince,Bath\nBo Reed,Hull\nCy Lund,York",  # one value looks unlike the others
        "A-1,rope,red\nA-2,sail,white",
        "1.5,2.5\n3,4\n5,6",
        "1,2,3\n4,5,6",
        "2024-01-01,INFO,started\n2024-01-02,WARN,slow",
        "Author,Ines\nVersion,2",  # a list of properties
        "CAP,Cross-Agency Priority\nCFO,Chief Financial Officer\nCHCO,Chief Human Capital Officer",
        "ACSI,American Customer Satisfaction Index\nALJ,Administrative Law Judge\nAPG,Agency Priority Goal",
        "Author,Ines\nVersion,2\nRigging,Gaff",
        "Ada,1,2,3\nBo,1,2,3",  # each row counts
    ],
)
def test_no_value_becomes_a_name_where_no_row_is_a_header(text: str) -> None:
    assert find_header(_rows(text)) is None
    assert ":" not in labelled(_rows(text)).replace("08:00", "")


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (",2019,2022\nNorth,11,12\nSouth,21,22", False),
        (",Q1,Q2\nNorth,A1,A2\nSouth,B1,B2", False),
        (",06:00,12:00\nNorth,07:10,13:10\nSouth,07:20,13:20", False),
        ("Symptom,Remedy\nFever,Rest\nCough,Tea", False),
        ("Ursache,Wirkung\nFrost,Bruch\nNebel,Halt", False),
        ("Anna,Lyon\nBoris,Oslo\nCarla,Turin", True),
        (",Lyon,Oslo\n,Bergen,Turin\n,Hull,Bath", True),  # no row has a name
    ],
)
def test_a_first_row_is_data_unless_its_corner_is_blank_or_it_has_a_known_name(text: str, data: bool) -> None:
    assert begins_with_data(_rows(text)) is data


def test_a_header_is_found_below_a_title_block() -> None:
    title = [["Harbour office"], ["Prepared by: Ines"], ["Version", "2"]]

    header = find_header([*title, *_rows("Berth,Ship,Days\nB1,Wren,3\nB2,Rook,9")])

    assert header is not None
    assert (header.at, header.names) == (3, ["Berth", "Ship", "Days"])


def test_an_upper_row_that_groups_names_belongs_to_the_header() -> None:
    header = find_header([["Port", "High", Covered("High")], ["", "Plan", "Seen"], ["Bath", "4", "5"]])

    assert header is not None
    assert (header.rows, header.names) == (2, ["Port", "High Plan", "High Seen"])


def test_after_a_gap_a_table_has_its_own_header_or_none_unless_the_names_fit() -> None:
    table = "Region,Units\nNorth,5\nSouth,6\n,\n"

    assert labelled(_rows(table + "Total,11")).endswith("Region: Total; Units: 11")
    assert labelled(_rows(table + "Source: the ministry")).endswith("\n\nSource: the ministry")
    assert labelled(_rows(table + "7,rated voltage,kV,130")).endswith("\n\n7 | rated voltage | kV | 130")
    assert labelled(_rows(table + "Rope,Price\nHemp,3.5")).endswith("Rope: Hemp; Price: 3.5")


@pytest.mark.parametrize(
    "form",
    [
        "Vorname|Eva|Nachname|Kai;Straße|Weg 1|Ort|Ulm;Telefon|123|E-Mail|e@b.de",
        "Name:|Skua|Draught:|4;Owner:|Eva|Berth:|9",
        "First name|Ann|Last name|Lee;Date of birth|1.2.1990|Phone|555;Address|1 Road||",
        "Nom|Dupont||Prénom|Jean;Adresse|1 rue||Ville|Brest;Téléphone|02||Date|1.1.2020",
        "Patient:||Arzt:|Dr. Kim;Datum:|1.1.24|Raum:|5",
        "Project|Tide|Manager|Eva;Start|1.1.|End|2.2.;Status|open|Budget|5",
    ],
)
def test_a_form_with_two_names_in_a_row_has_one_below_the_other(form: str) -> None:
    rows = [row.split("|") for row in form.split(";")]

    pairs = [[cell for cell in row if cell] for row in properties(rows)]

    assert [cell for pair in pairs for cell in pair] == [cell for row in rows for cell in row if cell]
    assert max(map(len, pairs)) == 2


@pytest.mark.parametrize(
    "ordinary",
    [
        "Name|City|Country|Phone;Ann|York|UK|555;Bo|Kiel|DE|556",
        "Country|Capital|Currency|Language;France|Paris|Euro|French;Japan|Tokyo|Yen|Japanese",
        "Field|Type|Null|Default;name|varchar|no|;price|decimal|yes|0;date|date|maybe|now",
        "Eigenschaft|Wert|Einheit|Quelle;Länge|12|m|A;Gewicht|5|kg|B",
        "Task|Mon|Tue|Wed;Wash|Ann|Bo|Cy;Cook|Bo|Cy|Ann",
        "Name|Skua|Alk|Tern;Farbe|rot|blau|grün;Hafen|Kiel|Bonn|Ulm",
        "Datum|Uhrzeit|Ort|Thema;1.1.|9:00|Kiel|Segel;2.1.|10:00|Bonn|Anker",
        "Setting|Default|Range|Description;port|80|1-65535|The port;size|5|1-9|The size",
        "Feature|Basic|Plus|Pro;Storage|small|medium|large;Support|mail|phone|visit",
        "Parameter|Symbol|Unit|Value;Mass|m|kg|4;Length|l|m|5",
        "Skua|Kiel|Alk|Bonn;Tern|Ulm|Gull|Rom",
        "From|To|Subject|Date;Eva|Kim|Tide|1.1.;Kim|Eva|Re|2.1.",
        "Key|Value|Key|Value;name|Skua|port|Kiel;size|3|type|boat",
        "Column|Meaning|Example|Notes;name|Name of it|Skua|none;city|Where it is|Kiel|long",
        "Deutsch|Englisch|Deutsch|Englisch;Name|name|Ort|place;Preis|price|Datum|date",
        "Title|Author|Title|Author;Tide|Eva|Ebb|Kim",
        "name|Alk|date|Tern;Kiel|1|Bonn|2",
        "Land|Umsatz|Land|Umsatz;Name|1|Ort|2",
        "Name|Skua;Draught|4",
        "Name|Kai|Date|1.1.",
        "A|B|C|D|E;1|2|3|4|5",
    ],
)
def test_a_table_of_four_columns_is_no_form(ordinary: str) -> None:
    rows = [row.split("|") for row in ordinary.split(";")]

    assert properties(rows) == rows


def test_names_with_a_colon_are_properties() -> None:
    assert find_header(_rows("Draught:,4\nOwner:,Eva\nBerth:,9")) is None
    assert find_header(_rows("Owner:,Berth:\nEva,9\nKim,7\nBo,8")) is not None


def test_an_error_is_a_figure_and_a_hashtag_is_none() -> None:
    assert all(map(is_figure, ("#N/A", "#DIV/0!", "#REF!", "#NAME?", "#ERROR!")))
    assert not any(map(is_figure, ("#SALE", "#1 of all", "# 4", "#n/a!", "N/A")))
