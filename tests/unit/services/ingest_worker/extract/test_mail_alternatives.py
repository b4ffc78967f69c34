import pytest

from services.ingest_worker.extract.mail_alternatives import merge_forms


@pytest.mark.parametrize(
    ("plain", "html"),
    [
        ("Total: 1234.50 EUR", "Total: 1,234.50 €"),
        ("Code 443 211, ring 030 1234567", "Code 443211, ring 030 123 45 67"),
        ("At 3pm in\nroom 5\n7 crates", "At 3 pm in room 5\n\n7 crates"),
        ("Mueller gruesst ueber Oe", "Müller grüßt über Ö"),
        ("Tea 3.50\nCake 4.00", "| Dish | Price |\n| --- | --- |\n| Tea | 3.50 |\n| Cake | 4.00 |"),
        ("> When?\n\nAt 5.", "When?\n\nAt 5."),
        ("Run:\n\nfor x in y:\n    stop(x)", "Run:\n\nfor x in y:\n\nstop(x)"),
        ("Only here.", "\n"),
    ],
)
def test_what_both_forms_say_is_taken_from_the_plain_one(plain: str, html: str) -> None:
    assert merge_forms(plain, html) == plain


@pytest.mark.parametrize(
    ("plain", "html", "below"),
    [
        ("> When do you come?\n\nAt 5.", "When do you come?\n\nAt 5.\n\nSent from a phone", "Sent from a phone"),
        ("for x in y:\n    stop(x)", "for x in y:\n\nstop(x)\n\nKai & Sons", "Kai & Sons"),
        (
            "News\n\nWe move on 3 May.",
            "| News |\n| --- |\n| We move on 3 May. |\n| Unsubscribe here |",
            "Unsubscribe here",
        ),
        (
            "We move, and these are the new prices of the ropes.",
            "We move, and these are the new prices of the ropes.\n\n| Rope | EUR |\n| --- | --- |\n| Flax | 9.50 |",
            "| Rope | EUR |\n| --- | --- |\n| Flax | 9.50 |",
        ),
        ("The rope is 10 EUR a coil.", "The rope is 12 EUR a coil.", "The rope is 12 EUR a coil."),
        ("Ring 030 12 34 today", "Ring 030 12 35 today", "Ring 030 12 35 today"),
    ],
)
def test_what_only_the_html_form_says_stands_below_the_plain_one(plain: str, html: str, below: str) -> None:
    assert merge_forms(plain, html) == f"{plain}\n\n{below}"


@pytest.mark.parametrize(
    ("plain", "html", "said"),
    [
        ("", "The ferry leaves.", "The ferry leaves."),
        ("-", "?!", "-"),
        ("Your program shows no HTML.", "The ferry leaves.", "The ferry leaves."),
        ("Dear %NAME%, open your browser", "The ferry leaves at 9.", "The ferry leaves at 9."),
        ("Moved to 15:40.", "See the invitation.", "See the invitation.\n\nMoved to 15:40."),
        (
            " ".join(f"w{'x' * n}" for n in range(40)),
            "See above",
            " ".join(f"w{'x' * n}" for n in range(40)) + "\n\nSee above",
        ),
    ],
)
def test_a_plain_form_that_is_a_remark_gives_way(plain: str, html: str, said: str) -> None:
    assert merge_forms(plain, html) == said
