import pytest

from services.ingest_worker.extract.rows import labelled, table
from services.ingest_worker.extract.table_header import Covered, begins_with_data, find_header, is_figure


def _rows(text: str) -> list[list[str]]:
    return [line.split(",") for line in text.split("\n")]


@pytest.mark.parametrize(
    "text",
    [
        "Name,Phone,Phone,City\nAda Pole,home only,desk line,Bath\nBo Reed,mobile first,reception,Hull",  # equal names
        "Item,1,2,3\nPlums,10,11,12\nFigs,20,21,22",  # numbers that count
        "Metric,2024-01-01,2024-02-01\nVisits,120,130\nReturns,7,8",  # dates
        "Crew,1.6.,2.6.\nRed,8,7\nBlue,9,4",
        "Country,2022,2023\nEast,3 %,5 %\nWest,4 %,6 %",  # figures of another kind, which rise
        "Line,2022,2023\nEast,9:10,9:20\nWest,9:10,9:30",
        "Years,0.5 %,1.0 %,1.5 %\n5,101,203,307\n10,212,418,631",
        "Boat,08:00,09:00\nWren,12,31\nRook,4,9",  # times
        "Stage,10%,20%,30%\nRed,5,6,7\nBlue,4,3,2",  # percentages
        "Port,2019,2020\nHull,3,4",  # years
        "Crew,Mon,Tue,Wed\nRed,early,late,off\nBlue,late,off,early",  # weekdays
        "Nr.,Bezeichnung,Menge\n1,Seil,4\n2,Anker,9",
        "Имя,Город\nАнна,Казань\nБорис,Пермь",
        "名前,都市\n佐藤,東京\n鈴木,大阪",
        "Room,Capacity\nBlue,30\nRed,12\nGreen,unknown\nWhite,40",  # a value isn't known
        "Station,Departs\nBath,08:10\nHull,cancelled\nYork,08:40\nEly,09:05",
        f"How do you like {'the old ' * 8} pier?,Any remarks?\nVery much,Great crew\nNot at all,Too slow\nIt depends,",
        ",,2022,2023\nTin,ore,30,31\n,bars,40,41",  # above two columns of words
        ",2022,2023\nTin,30,31\nZinc,40,41",  # years above a column of words
        "Stop,Ship\n4A,Wren\n9C,Rook\n7B,Skua",  # codes
        "Check,Good,Bad\nMast,x,\nKeel,x,\nSail,,x\nRope,x,",  # marks
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
        "Mast,SN-1,Room A\nSail,SN-2,Room B\nRope,SN-3,Room C",  # a usual name with another of its kind below
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
        "North,12 %,14 %,15 %\nSouth,9 %,11 %,8 %\nEast,3 %,5 %,2 %",
        "North,1.2 %,1.4 %,1.5 %\nSouth,9.1 %,1.1 %,8.0 %\nEast,3.3 %,5.0 %,2.1 %",
        "Ada,2019,2020\nBo,2021,2022\nCy,1990,1991",
        "Dog,3.5.,4.5.\nCat,1.6.,2.6.\nCow,1.7.,2.8.",
        "12/03/2026,Table 7\n2 x Soup,19.00\n1 x Bread,2.50\nTotal,21.50",  # a receipt
        "4711,Paid,Room 3\nBreakfast,12.50,2\nDinner,30.00,1\nTotal,42.50,3",
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
        ("Exit,rear stair\nPump,car park B\nWarden,Jo Daly", True),  # pairs
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


def test_a_header_has_as_many_rows_as_tell_its_columns_apart() -> None:
    names = ["Port", "2024 H1 High", "2024 H1 Low", "2024 H2 High", "2024 H2 Low"]
    year, half = Covered("2024"), [Covered("Port"), "H1", Covered("H1"), "H2", Covered("H2")]
    rows = [["Port", "2024", year, year, year], half, [Covered("Port"), *["High", "Low"] * 2], ["Bath", *"4567"]]

    assert find_header(rows) == (0, 3, names)
    assert find_header(_rows(",Hull,Hull,Bath,Bath\nDay,High,Low,High,Low\nMon,4,5,6,7")) == (
        *(0, 2),
        ["Day", "Hull High", "Hull Low", "Bath High", "Bath Low"],
    )


def test_after_a_gap_a_table_has_its_own_header_or_none_unless_the_names_fit() -> None:
    table = "Region,Units\nNorth,5\nSouth,6\n,\n"

    assert labelled(_rows(table + "Total,11")).endswith("Region: Total; Units: 11")
    assert labelled(_rows(table + "Source: the ministry")).endswith("\n\nSource: the ministry")
    assert labelled(_rows(table + "7,rated voltage,kV,130")).endswith("\n\n7 | rated voltage | kV | 130")
    assert labelled(_rows(table + "Rope,Price\nHemp,3.5")).endswith("Rope: Hemp; Price: 3.5")


@pytest.mark.parametrize(
    "form",
    [
        "Name:|Anna|Dept:|IT|Room:|5;From:|1 May|To:|5 May|Days:|5;Boss:|Bob|Reason:|holiday|Pay:|yes",
        "Crew Injuries:|1 None|Aircraft Damage:|Minor;Passenger Injuries:|N/A|Aircraft Fire:|None;Total:|1|Fatal:|None",
        "Name:|Skua|Draught:|4;Owner:|Eva|Berth:|9",
        "Patient:||Arzt:|Dr. Kim;Datum:|1.1.24|Raum:|5;Grund:|Husten|Kasse:|AOK",
        "Application for leave;Name:|Anna|Dept:|IT;From:|1 May|To:|5 May;Days:|5|Reason:|holiday",
        "Make:|Cessna|Series:|210;Year:|1978|Built:|No;Certificate:||Number:|;Gear:||Seats:|;Engines:|1|Weight:|9",
        "Statement;Account:|DE00 1234;Period:|1.1.2024 - 31.1.2024",
        "Invoice No|A-17||Date|5.3.2024;Customer|Wren Ltd||Due|4.4.2024",
        "Project|Wren|Manager|Kim;Start|1.1.2024|End|1.6.2024;Owner|Roe|Status|4;Budget|500|City|Bath",
        "Invoice No|A-17|Date|5 Mar 2024;Customer|Wren Ltd|Due|4 Apr 2024",
        "Project|Wren refit|Manager|A. Berg;Start|2024-01-10|End|2024-06-30;Budget|50000|Spent|12000",
        "Name|Kim Lee|Department|Accounts;Address|Quay|City|Hull",
        "IBAN|DE02 1203;Kontoname|Giro;Bank|ING;Kunde|Kim;Saldo|1.234,56|EUR;Sortierung|Datum absteigend",
        "ACME Ltd||Invoice;1 Quay St||No.|A-77;Hull||Date|5 Mar 2024",
        "Engine;Power|90 kW;Fuel|Diesel;Body;Length|4.2 m;Doors|5",
        "姓名：|王|部门：|财务;地址：|北京|电话：|123;邮箱：|a@b.cn|备注：|无",
    ],
)
def test_a_row_of_a_form_names_no_columns(form: str) -> None:
    rows = [row.split("|") for row in form.split(";")]

    values = "\n\n".join(" | ".join(filter(None, row)) for row in rows)
    assert labelled(rows).replace(":", "").replace(" | ", " ") == values.replace(":", "").replace(" | ", " ")
    assert "Patient: | Arzt: Dr. Kim" in labelled(rows) or "Patient" not in form


@pytest.mark.parametrize(
    "form",
    [
        "Name|Hanna Ritz;Geburtsdatum|04.11.1986;Krankenkasse|Nordkasse;Hausarzt|Dr. Sabeti;Notfall|Lars, 0151 22",
        "Empresa|Talleres Roca S.L.;CIF|B-4410;Teléfono|972 10 20 30;Persona de contacto|Ana Roca;Pago|30 días",
        "Company|Orr Ltd;Founded|1987;Staff|120;City|Hull;Revenue|1500000",
        "Krankenkasse|Nordkasse;Mitglied seit|2014;Beitrag|120,50;Status|aktiv",
    ],
)
def test_a_list_of_properties_without_colons_has_no_header(form: str) -> None:
    rows = [row.split("|") for row in form.split(";")]

    assert labelled(rows) == "\n\n".join(map(" | ".join, rows))
    assert table(rows, headed=False).startswith("|  |  |\n")


@pytest.mark.parametrize(
    "ordinary",
    [
        "Leistung|Kosten;Haarschnitt|12,50;Färben|45;Bart|frei;Waschen|6,00",
        "Fach|Note;Deutsch|2;Sport|befreit;Mathe|1",
        "Name|Instrument;Anna|Geige;Ole|Klavier;Ida|Tuba",
        "Datum|Ereignis;3.4.|Kick-off;später|Übergabe;5.6.|Fest",
        "Zeit|Programm;9:00|Begrüßung;10:30|Vortrag;12:00|Essen",
        "Item|Value;Share|4;Owner|Ann;Since|2014-05-01;Phone|555 12",
        "What|Shown;Share|7%;Uptime|74:05:07;Rent|1,250.50;When|2024-05-06",
    ],
)
def test_the_names_of_a_table_of_two_columns_stay_its_header(ordinary: str) -> None:
    rows = [row.split("|") for row in ordinary.split(";")]

    found = find_header(rows)

    assert found is not None
    assert (found.at, found.names) == (0, rows[0])


def test_a_form_above_its_table_is_none_of_it() -> None:
    form = "Name:,Anna,Dept:,IT\nFrom:,1 May,To:,5 May\nDate,Item,Price,Paid\n1.1.,Taxi,20,yes\n2.1.,Train,30,no"

    assert labelled(_rows(form)).split("\n\n")[2:] == [
        "Date | Item | Price | Paid",
        "Date: 1.1.; Item: Taxi; Price: 20; Paid: yes",
        "Date: 2.1.; Item: Train; Price: 30; Paid: no",
    ]


@pytest.mark.parametrize(
    "ordinary",
    [
        "Parameter|In|Type|Required;name|query|text|yes;date|path|number|no",
        "Field|PII|Title|GDPR;name|yes|Name|Art. 6;price|no|Price|none;city|yes|City|Art. 6",
        "Name|City|Country|Phone;Ann|York|UK|555;Bo|Kiel|DE|556",
        "Step|Who|Note|When;Start:|Anna|First:|Mon;Middle:|Carl|Second:|Tue;End:|Dora|Third:|Wed",
        "Question:|Yes/No|Remark:|Points;Is it red?|yes|no remark|5;Is it big?|no|see below|3",
        "Year:|2019|2020|2021;Oil|12|13|14;Gas|8|9|7",
        "Product:|Price:|Amount:|Sum:;Tea|3|4|12;Milk|1|2|2",
        "Total:|Kiel|Ulm|Bonn;Tea|4|5|6;Milk|7|8|9",
        "Item|Price:|Amount:|Note;Tea|3|4|hot;Milk|1|2|cold",
        "Parameter|Symbol|Unit|Value;Mass|m|kg|4;Length|l|m|5",
        "Item|Q1|Remark|Q2;Rope|5|worn|6;Buoy|7|new|8",
        "Column|Sample|Description|Preset;name|Wren|title|none;city|Hull|address|Bath",
        "Name|January|Manager|February;Start|5|End|6;Budget|50|Revenue|12",
        "Item|Qty|Remark|Price;Rope|3|worn|5;Buoy|1|new|n/a",
        "Column|Example|Description|Default;name|Wren|title|none;city|Hull|address|Bath",
        "Datum|Uhrzeit|Ort|Thema;1.1.|9:00|Kiel|Segel;2.1.|10:00|Bonn|Anker",
    ],
)
def test_the_names_of_a_table_of_four_columns_stay_its_header(ordinary: str) -> None:
    rows = [row.split("|") for row in ordinary.split(";")]

    found = find_header(rows)

    assert found is not None
    assert (found.at, found.names) == (0, rows[0])
    assert table(rows, headed=False).split("\n")[0] == f"| {' | '.join(rows[0])} |"


def test_names_with_a_colon_are_properties() -> None:
    assert find_header(_rows("Draught:,4\nOwner:,Eva\nBerth:,9")) is None
    assert find_header(_rows("Owner:,Berth:\nEva,9\nKim,7\nBo,8")) is not None


def test_a_list_of_properties_has_no_header_below_its_title_either() -> None:
    facts = "About us\nCompany,Orr Ltd\nFounded,1987\nStaff,120\nCity,Hull\nRevenue,1500000"

    assert labelled(_rows(facts)) == facts.replace("\n", "\n\n").replace(",", " | ")


def test_an_error_is_a_figure_and_a_hashtag_is_none() -> None:
    assert all(map(is_figure, ("#N/A", "#DIV/0!", "#REF!", "#NAME?", "#ERROR!")))
    assert not any(map(is_figure, ("#SALE", "#1 of all", "# 4", "#n/a!", "N/A")))


def test_a_short_value_above_long_ones_makes_no_header_of_two_columns() -> None:
    rows = _rows(
        "Frequency,Annually\nVerification,The officer reviews the spreadsheet each month\nLimits,There are none"
    )

    assert find_header(rows) is None


@pytest.mark.parametrize(
    "names", ["Term,Definition", "Question,Answer", "Frage,Antwort", "prompt,completion", "City,History"]
)
def test_names_above_long_values_are_a_header_of_two_columns(names: str) -> None:
    rows = _rows(f"{names}\nEbb,The water that runs off to the sea\nFlood,The water that comes in from there")

    assert find_header(rows) is not None


@pytest.mark.parametrize(
    "rows",
    [
        "1001,Ann,,35.5\n1002,Ben,Kiel,36.0\n1003,Cid,Bonn,33.2\n1004,Dan,Linz,30.1",  # the second row is wider
        "Ann,Kiel,red,\nBen,Bonn,blue,tall\nCid,Emden,green,small\nDan,Linz,grey,tall",
        "2025-01-01,INFO,start,\n2025-01-02,WARN,disk,full\n2025-01-03,INFO,stop,clean\n2025-01-04,INFO,start,ok",
        ",Ann,5\n1,Bob,6\n2,Cid,7\n3,Dan,8",  # a blank corner
        ",red,big\nx,blue,small\ny,green,tall\nz,grey,wide",
        "Ann,Lee,Kiel,,,\nBen,,,,,\nCid,Ray,,,,",  # columns without values
        "alpha,beta,gamma,delta,epsilon\none two,,,,\nthree four,,,,\nfive six,,,,",
    ],
)
def test_values_in_rows_of_different_width_have_no_header(rows: str) -> None:
    assert find_header(_rows(rows)) is None


def test_a_wide_first_row_of_values_leaves_the_header_above_it() -> None:
    header = find_header(_rows("Name,Score\nAnn,5,late,see note\nBob,6\nCid,7"))

    assert header is not None
    assert header.at == 0


@pytest.mark.parametrize(
    "above",
    [
        "Kunde,Ann Lee,Kiel\n",  # values
        "Total,5,7\n",
        "Report,March,draft\nby,Ann Lee,Kiel\n",
        "Listing of March\n",
        "Date,today\n",
        "Date,0,Name\n",
        "Date,Name\n",  # of fewer columns
        "Name,Date,Text\n\nPort\nStarboard\n",
        "Name,Date\n\nPlease call before you come.\n",
    ],
)
def test_what_stands_above_a_blank_row_is_a_header_only_if_it_is_names(above: str) -> None:
    text = labelled(_rows(f"{above}\n5,6,7\n8,9,10"))

    assert text.endswith("5 | 6 | 7\n\n8 | 9 | 10")


@pytest.mark.parametrize(
    "rows",
    [
        "Anna Smith,Really?\nBen Jones,ok\nCarl Moe,fine",
        "Anna,Ben,Anna,Ben\nCarl,Carl,Dora,Dora\nEve,Finn,Eve,Finn\nGus,Gus,Hal,Hal",
    ],
)
def test_an_answer_with_a_question_mark_and_people_who_take_turns_are_no_names(rows: str) -> None:
    assert find_header(_rows(rows)) is None


def test_units_below_the_names_belong_to_them_and_values_in_brackets_do_not() -> None:
    assert labelled(_rows("Run,Length,Mass\n,[mm],[kg]\nS1,12.5,3")).endswith(
        "Run: S1; Length [mm]: 12.5; Mass [kg]: 3"
    )
    assert labelled(_rows("Beam,Length,Load\n,mm,kg/m²\nA,80,6")).endswith("Beam: A; Length mm: 80; Load kg/m²: 6")
    assert labelled(_rows("From,To\nA,B\nB,C")).endswith("From: B; To: C")
    assert labelled(_rows("Time,Heat\n(s),(°C)\n0,4.5")).endswith("Time (s): 0; Heat (°C): 4.5")
    assert labelled(_rows("Day,Open\n2024-03-05,(12)\n2024-03-06,3")).endswith("Day: 2024-03-06; Open: 3")
    assert labelled(_rows("Question,Yes,No\nHeavy?,(x),( )\n,( ),(X)")).endswith("Yes: ( ); No: (X)")
    assert labelled(_rows("Yes,No\n( ),(x)\n(x),( )")).startswith("Yes | No\n\n")
    assert labelled(_rows("Name,Share,There\n,%,(x)\nA,5,x\nB,6,")).endswith("Name: B; Share %: 6")
    assert labelled(_rows("City,Mayor\nRome,Rossi,2020\nBonn,Orr,2021")).endswith("City: Bonn; Mayor: Orr; 2021")
    assert labelled(_rows("Item,Mass\n(none),(none)\nS2,13")).endswith("Item: S2; Mass: 13")


def test_names_of_rows_below_the_header_of_a_pivot_table_belong_to_it() -> None:
    above = _rows(",,Tons,Tons,Loss,Loss\n,Quarter,Q1,Q2,Q1,Q2")
    rows = [["Port", "Ware", *[""] * 4], ["Bath", "Tin", *"4567"], [Covered("Bath"), "Zinc", *"6789"]]

    found = labelled([*above, *rows])

    assert found.endswith("Port: Bath; Ware: Zinc; Tons Q1: 6; Tons Q2: 7; Loss Q1: 8; Loss Q2: 9")


def test_names_of_rows_below_a_blank_corner_keep_their_columns_after_a_gap() -> None:
    table = ",Plan,Actual\nStaff,5,6\nBoats,7,8\n,,\n"

    assert labelled(_rows(table + "Rent,50,51")).endswith("Rent; Plan: 50; Actual: 51")
    assert labelled(_rows(table + "EUR,1.1")).endswith("EUR | 1.1")


@pytest.mark.parametrize(
    ("above", "rows"),
    [
        ("Turnover,Checking\nIBAN,DE02\nPeriod,May", 0),
        ("Zone,Tariff\nA,5\nB,6", 2),
        ("Name,Aufgabe\nKim,Segeln\nBo,Anker", 2),
    ],
)
def test_what_an_export_says_of_its_table_is_no_table_and_a_small_table_is_one(above: str, rows: int) -> None:
    found = labelled(_rows(above + "\n,\nDay,Ship,Port,Cost\n1 May,Wren,Hull,5"))

    assert sum(above.split(",", maxsplit=1)[0] + ": " in line for line in found.split("\n")) == rows
    assert found.endswith("Day: 1 May; Ship: Wren; Port: Hull; Cost: 5")


def test_a_name_that_ends_with_a_colon_has_no_second_one() -> None:
    assert labelled(_rows("Bill to:,Ship to:\nWren,Skua\nPier,Dock\n")).endswith("Bill to: Pier; Ship to: Dock")
