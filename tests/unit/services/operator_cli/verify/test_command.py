"""What the command says, and the code it ends with."""

import pytest

from services.operator_cli.main import main
from services.operator_cli.verify.command import VerifyOutcome, as_dict, lines
from services.operator_cli.verify.findings import IndexDifference, Tally, VerifyReport
from services.operator_cli.verify.repair import Repaired


def a_report(*sentences: str, unsettled: tuple[str, ...] = ()) -> VerifyReport:
    tally = Tally()
    for sentence in sentences:
        tally.add(IndexDifference(invariant="I1", sentence=sentence, document_id="d"))
    return VerifyReport(
        documents=3,
        points=4,
        embedded=2,
        counts={name: count for name, count in tally.counts.items() if count},
        first={name: tuple(found) for name, found in tally.first.items() if found},
        unsettled=unsettled,
        lag={"documents.submitted": 7},
        wrong=tuple(tally.wrong),
    )


@pytest.mark.parametrize(
    ("report", "code", "verdict"),
    [
        (a_report(), 0, "right"),
        (a_report("lost"), 1, "wrong"),
        (a_report(unsettled=("d",)), 2, "unsettled"),
        (a_report("lost", unsettled=("e",)), 1, "wrong"),
    ],
)
def test_the_exit_code_tells_right_from_wrong_and_from_unknown(report: VerifyReport, code: int, verdict: str) -> None:
    outcome = VerifyOutcome(report=report)

    assert outcome.exit_code == code
    assert as_dict(outcome)["verdict"] == verdict


def test_each_invariant_is_told_with_its_count_and_its_first_ten() -> None:
    text = "\n".join(lines(VerifyOutcome(report=a_report(*(f"fault {n}" for n in range(12)), unsettled=("slow",)))))

    assert "3 documents, 4 points compared, 2 of them embedded again" in text
    assert "12 differ" in text
    assert "d  fault 9" in text
    assert "fault 10" not in text
    assert "and 2 more" in text
    assert all(f"I{number}  " in text for number in range(1, 9))
    assert "unfinished: 7 records of documents.submitted" in text
    assert "not checked: 1 documents kept changing, such as slow" in text
    assert text.endswith("index and log differ")


def test_a_repair_tells_what_was_wrong_what_was_done_and_how_it_stands() -> None:
    done = Repaired(published=2, points_deleted=1, applied=False)
    found = a_report("lost")

    healed = "\n".join(lines(VerifyOutcome(report=a_report(), found=found, repaired=done)))
    planned = "\n".join(lines(VerifyOutcome(report=found, found=found, repaired=Repaired(published=2), dry_run=True)))

    assert "d  lost" in healed
    assert "repaired: 2 versions published again, 1 points deleted; the workers have not finished" in healed
    assert healed.endswith("index and log agree")
    assert planned.endswith("would repair: 2 versions published again")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--dry-run"], "give both"), (["--embed", "some"], "--embed some must be a number, or all")],
)
def test_options_that_make_no_sense_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["verify", *arguments])

    assert ended.value.code == 2
    assert words in capsys.readouterr().err
