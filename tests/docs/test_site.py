"""The site (`make site`) has every page, in one place each; a link in it leads to a page or is only words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.docs import site

# What operators ask most days: the page of the site that answers, and words of the answer.
QUESTIONS = {
    "How do I run it as a service that starts with the machine?": ("deploy/host/README.md", "systemctl enable --now"),
    "How do callers reach it by TLS?": ("deploy/host/README.md", "caddy run --config"),
    "Which ports have to be open?": ("deploy/host/README.md", "Qdrant 6333"),
    "How does another team get a key, and how is one taken back?": ("docs/security.md", "sluice keys revoke ID"),
    "How do I make a backup, and come back to it?": ("docs/operations.md", "sluice restore /backups/"),
    "How do I upgrade, and go back?": ("deploy/host/README.md", "To go back, restore"),
    "Why isn't a document found?": ("docs/operations.md", "sluice documents show NAME"),
    "Somebody deleted the wrong documents. What now?": ("docs/operations.md", "deleted by mistake"),
    "Who deleted this document?": ("docs/operations.md", "sluice audit --action rag_document_delete"),
    "The disk is full. What now?": ("deploy/host/README.md", "Make room, and it goes on by itself"),
    "An alert fires. What do I do?": ("deploy/monitoring/README.md", "## SluiceStageStandsStill"),
    "How many workers do I need?": ("deploy/host/README.md", "Embed workers: as many as"),
}


def places(nav: Any) -> Iterator[str]:
    """Yield the pages of a part of the navigation."""
    for each in nav:
        if isinstance(each, str):
            yield each
        else:
            [below] = each.values()
            yield from places([below] if isinstance(below, str) else below)


def test_every_page_has_one_place_two_clicks_from_the_start() -> None:
    nav = site.configuration()["nav"]

    assert sorted(places(nav)) == sorted(map(str, site.pages()))
    assert [name for tab in nav for name in tab] == ["Try it", "n8n", "Connect a client", "Operate it", "Change it"]


def test_everyday_questions_of_an_operator_are_answered_two_clicks_from_the_start() -> None:
    [operating] = [tab["Operate it"] for tab in site.configuration()["nav"] if "Operate it" in tab]  # one click
    two_clicks = {*places(operating)}

    unanswered = [
        question
        for question, (page, words) in QUESTIONS.items()
        if page not in two_clicks or words not in (site.ROOT / page).read_text("utf-8")
    ]
    assert (len(QUESTIONS), unanswered) == (12, [])


def test_a_link_to_code_is_its_words_and_one_to_a_page_stays() -> None:
    page = Path("docs/operations.md")
    text = site.as_page(page, {Path("deploy/monitoring/README.md")})

    assert "[alerts](../deploy/monitoring/README.md)" in text
    assert "](reindex.md)" not in text
    assert "](../" not in site.as_page(Path("docs/architecture.md"), {*site.pages()})
