import pytest

from services.ingest_worker.extract.number_formats import number_format


@pytest.mark.parametrize(
    ("code", "value", "shown"),
    [
        ("0%", 0.125, "12.5%"),
        ("0.00%", 0.07, "7.00%"),
        ("0.0 %;[Red]-0.0 %", -0.285, "-28.5 %"),
        ("00000", 99, "00099"),
        ("00000", 123456, "123456"),
        ('"INV-"0000', 42, "INV-0042"),
        ("000\\-00\\-0000", 1234567, "001-23-4567"),
        ("(000) 000-0000", 4165550123, "(416) 555-0123"),
        ("000-000", 1.5, "1.5"),
        ("[$€-407] #,##0.00", 1234.5, "€ 1234.50"),
        ('#,##0.00\\ "kr";-#,##0.00\\ "kr"', -3, "-3.00 kr"),
        ('_("$"* #,##0.00_);_("$"* (#,##0.00);_("$"* "-"??_);_(@_)', 1234.567, "$1234.567"),
        ("$#,##0", 12, "$12"),
        ('0.0" kg"', 12.25, "12.25 kg"),
        ('0.0,,"M"', 1_234_567, "1.234567M"),
        ("0%", 1e300, "1e+300"),
        ('"Yes";"Yes";"No"', 1, "Yes"),
        ('"up";[Red]"down"', -2, "down"),
        ('"Ja";"Ja";"Nein"', 0, "Nein"),
    ],
)
def test_a_number_is_shown_as_its_format_says_with_all_of_its_digits(code: str, value: float, shown: str) -> None:
    found = number_format(code)

    assert found is not None
    assert found.shown(float(value)) == shown


@pytest.mark.parametrize(
    "code",
    [
        "General",
        "0",
        "#,##0.00",
        "0.00E+00",
        "# ?/?",
        "@",
        "dd.mm.yyyy",
        "[h]:mm",
        "",
        ";;;",
        "0-",
        "[Blue]0.0",
        "h:mm AM/PM",
        '"Yes"',  # says nothing of the number
        '"Yes";0',
        '"-";"-"',
        '"Yes";;"No"',  # which shows nothing of what is below zero
        '"Yes";"No";',
    ],
)
def test_a_plain_number_or_a_date_has_no_format_of_its_own(code: str) -> None:
    assert number_format(code) is None
