"""The sample library is ours, complete, and made of every kind of file a first start should show."""

import runpy
from pathlib import Path

from services.operator_cli import demo

ROOT = Path(__file__).resolve().parents[4]
SAMPLES = ROOT / "deploy" / "samples"


def test_it_has_a_dozen_documents_of_all_kinds() -> None:
    documents = [path for path in SAMPLES.iterdir() if path.name != "README.md"]

    assert len(documents) == 12
    assert {path.suffix for path in documents} == {".md", ".html", ".txt", ".pdf"}


def test_its_pdf_is_what_the_script_writes() -> None:
    built = runpy.run_path(str(ROOT / "deploy" / "build_sample_pdf.py"))

    assert built["pdf"](built["PAGES"]) == (SAMPLES / "harbour-notice.pdf").read_bytes()


def test_it_holds_the_sentence_that_the_demo_changes() -> None:
    assert (SAMPLES / demo.CHANGED).read_text(encoding="utf-8").count(demo.BEFORE) == 1
    assert (SAMPLES / demo.DELETED).is_file()
