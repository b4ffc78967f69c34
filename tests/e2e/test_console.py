"""The console in a real Chromium, as a person uses it: one server, one browser, and documents that attack the page."""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.browser import (
    BEYOND,
    DESK,
    HOSTILE,
    PHONE,
    TABLET,
    WIDE,
    Scheme,
    Watched,
    hostile_documents,
    ingested,
    launched,
    needed_chromium,
    opened,
)
from tests.e2e.harness import Server, served
from tests.unit.services.ingest_worker.files import a_pdf

pytestmark = pytest.mark.slow

KEYS = "key-of-the-admin:house:admin+operator,key-of-the-reader:house:query,key-of-the-attacked:attacked:admin"
ADMIN, ATTACKED = "key-of-the-admin", "key-of-the-attacked"
HOSTILE_DOCUMENTS = int(os.environ.get("SLUICE_TEST_COUNT") or 40)
BROKEN = b"%PDF-1.7 broken"
LAMP = "# The lamp\n\nThe lamp on the pier is lit at six.\n\n## Oil\n\nOne filling lasts nine hours."
BIRDS = "# Birds\n\nHerons nest in the old willow behind the boathouse.\n\nNobody may disturb them before June."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    needed_chromium()
    with served(tmp_path_factory.mktemp("console") / "data", API_KEYS=KEYS, CHAT="extractive:") as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched(needed_chromium()) as browser:
        yield browser


@pytest.fixture(scope="module")
def house(server: Server) -> Iterator[httpx.Client]:
    """Talk to the API as the admin of a tenant that has two documents."""
    with server.client(headers={"X-API-Key": ADMIN}) as client:
        ingested(
            client,
            [
                {"source": "manual", "path": "lamp.md", "title": "The lamp", "tags": ["light"], "text": LAMP},
                {"source": "nature", "path": "birds.md", "title": "Birds", "text": BIRDS},
            ],
        )
        yield client


@pytest.fixture(scope="module")
def attacked(server: Server) -> list[str]:
    with server.client(headers={"X-API-Key": ATTACKED}) as client:
        ids = ingested(client, hostile_documents(HOSTILE_DOCUMENTS))
        name = "<img src=x onerror=window.ran=1>.pdf"
        client.post("/rag/ingest/upload", files={"file": (name, BROKEN)}, data={"source": "<svg onload=window.ran=1>"})
    return ids


@pytest.fixture(scope="module")
def sessions(server: Server) -> dict[str, Any]:
    """Return the cookies of each key: signing in is one test, the others have done it."""
    cookies = {}
    for key in (ADMIN, ATTACKED, "key-of-the-reader"):
        with server.client() as client:
            reply = client.post("/console/session", json={"key": key}, headers={"Sec-Fetch-Site": "same-origin"})
            name, _, value = reply.headers["set-cookie"].partition(";")[0].partition("=")
            cookies[key] = {"name": name, "value": value, "url": server.url}
    return cookies


def contexts(browser: Browser, server: Server, cookie: Any, *args: Any) -> BrowserContext:
    context = opened(browser, *args, base_url=server.url)
    context.add_cookies([cookie])
    return context


@pytest.fixture
def page(browser: Browser, server: Server, sessions: dict[str, Any], house: httpx.Client) -> Iterator[Page]:
    """Give a page of the admin's; nothing may go wrong in it."""
    context = contexts(browser, server, sessions[ADMIN])
    watched = Watched(context.new_page())
    yield watched.page
    context.close()
    assert watched.wrong == []
    assert [url for url in watched.asked if not url.startswith(server.url)] == []


@pytest.mark.feature(263)
def test_a_question_is_answered_and_its_citation_opens_the_marked_passage(page: Page) -> None:
    page.goto("/")
    page.get_by_label("Your question").fill("How long does one filling of oil last?")
    page.keyboard.press("Enter")

    expect(page.locator(".answer")).to_contain_text("One filling lasts nine hours")
    page.locator(".answer .cite").first.click()

    expect(page).to_have_url(re.compile(r"/documents/[0-9a-f-]{36}\?chunk="))
    expect(page.locator(".chunk.hit")).to_contain_text("One filling lasts nine hours")
    expect(page.locator(".chunk.hit")).to_be_focused()
    page.go_back()
    expect(page.locator(".answer")).to_contain_text("One filling lasts nine hours")


@pytest.mark.feature(263)
def test_a_question_is_asked_of_the_chosen_source_alone(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="Choose…").click()
    page.get_by_role("group", name="Sources").get_by_role("checkbox", name=re.compile("nature")).check()
    page.get_by_role("button", name="Done").click()

    with page.expect_request("**/chat") as asked:
        page.get_by_label("Your question").fill("How long does one filling of oil last?")
        page.keyboard.press("Enter")

    assert json.loads(asked.value.post_data or "")["ragFilters"] == {"source": ["nature"]}
    expect(page.locator(".answer")).not_to_contain_text("nine hours")


def test_a_search_counts_the_fields_of_its_result_and_filters_by_a_click(page: Page) -> None:
    page.goto("/search?q=lamp")
    sources = page.get_by_role("group", name="Source")

    sources.get_by_role("button", name=re.compile("^manual")).click()

    expect(page).to_have_url(re.compile(r"source=manual"))
    expect(sources).to_have_count(0)  # one is left, so that there is nothing to choose
    expect(page.locator(".passage").first).to_contain_text("lamp")


def test_a_search_that_finds_nothing_relevant_says_so(page: Page) -> None:
    page.goto("/search?q=zeppelin+quartet+rehearsal")

    expect(page.get_by_text("Nothing relevant was found.")).to_be_visible()
    expect(page.locator(".meter").first).to_have_text("not relevant")
    page.goto("/search?q=when+is+the+lamp+on+the+pier+lit")
    expect(page.locator(".meter").first).to_have_text(re.compile("^(strong|fair)$"))
    expect(page.get_by_text("Nothing relevant was found.")).to_have_count(0)


def test_many_documents_are_chosen_tagged_and_deleted_together(page: Page, house: httpx.Client) -> None:
    heap = [{"source": "heap", "path": f"{n}.md", "title": f"Leaf {n}", "tags": ["a"], "text": "A"} for n in range(3)]
    ids = ingested(house, heap)
    page.goto("/documents?source=heap")
    page.get_by_label("Choose Leaf 0").check()
    page.get_by_role("button", name="All shown").click()
    page.get_by_label("Tag for the chosen documents").fill("red")
    page.get_by_role("button", name="Add tag").click()
    expect(page.locator(".notice").first).to_contain_text("3 documents will be tagged.")
    deadline = time.monotonic() + 60
    while not all(house.get(f"/rag/documents/{id_}").json()["tags"] == ["a", "red"] for id_ in ids):
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)  # another process

    page.get_by_label("Choose Leaf 0").check()
    page.get_by_label("Choose Leaf 1").check()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete 2 documents?").click()
    expect(page.locator(".document")).to_have_count(1, timeout=60_000)
    expect(page.locator(".document")).to_contain_text("2.md")


def test_a_failed_document_says_why_and_is_tried_again(page: Page, house: httpx.Client) -> None:
    house.post("/rag/ingest/upload", files={"file": ("again.pdf", BROKEN)}, data={"source": "torn"})
    page.goto("/documents?source=torn")

    expect(page.locator(".document .error")).not_to_be_empty()
    expect(page.locator("nav .count")).to_have_text(re.compile(r"\d+"))
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".notice").first).to_contain_text("It is processed again.")


def test_conversations_stay_in_the_browser_until_it_signs_out(browser: Browser, server: Server) -> None:
    context = opened(browser, base_url=server.url)
    page = context.new_page()
    page.goto("/")
    page.get_by_label("API key").fill(ADMIN)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Your question").fill("How long does one filling of oil last?")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Copy")).to_be_visible()
    expect(page.locator(".sources .meter")).to_have_count(0)  # what was cited never looks like a bad passage
    page.reload()
    page.get_by_role("button", name="How long does one filling of oil last?").click()
    expect(page.locator(".answer")).to_contain_text("nine hours")
    expect(page.locator(".answer .cite").first).to_be_visible()

    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    assert page.evaluate("localStorage.length") == 0
    context.close()


@pytest.mark.feature(266)
def test_a_thumb_with_its_reason_reaches_the_admin(page: Page) -> None:
    page.goto("/")
    page.get_by_label("Your question").fill("How long does one filling of oil last?")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="A bad answer").click()
    expect(page.get_by_role("button", name="A bad answer")).to_have_attribute("aria-pressed", "true")
    page.get_by_label("Why?").fill("It is about another lamp.")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Thank you.")).to_be_visible()

    page.get_by_role("link", name="house").click()
    thumb = page.get_by_role("row").filter(has_text="It is about another lamp.")
    expect(thumb).to_contain_text("down")
    expect(thumb).not_to_contain_text("How long")  # no setting allows it
    thumb.get_by_role("link", name="1", exact=True).click()
    expect(page.locator(".chunk.hit")).to_contain_text("One filling lasts nine hours")


def test_the_documentation_is_shown_and_its_links_lead_on(page: Page) -> None:
    page.goto("/settings")
    page.get_by_role("link", name="documentation").click()
    expect(page.locator("h1")).to_have_text("Documentation")
    page.get_by_role("link", name="clients", exact=True).click()
    expect(page).to_have_url(re.compile("/help/clients~README$"))
    page.get_by_role("link", name="n8n.md").first.click()
    expect(page.locator("h1")).to_contain_text("n8n")
    expect(page.get_by_role("link", name="All pages")).to_be_visible()


def test_a_citation_s_link_opens_its_passage_after_the_sign_in(
    browser: Browser, server: Server, house: httpx.Client
) -> None:
    body = {"model": "rag/extractive", "messages": [{"role": "user", "content": "How long does one filling last?"}]}
    url = house.post("/v1/chat/completions", json=body).json()["citations"][0]
    context = opened(browser, base_url=server.url)
    page = context.new_page()
    page.goto(url)
    page.get_by_label("API key").fill("key-of-the-reader")
    page.get_by_role("button", name="Sign in").click()

    expect(page.locator("h1")).to_have_text("The lamp")
    expect(page.locator(".chunk.hit")).to_contain_text("One filling lasts nine hours")
    context.close()


def test_settings_show_keys_tenants_changes_and_what_is_in_force(page: Page, house: httpx.Client) -> None:
    house.post("/ops/generations/cancel", json={})  # refused: nothing is built
    page.goto("/nowhere")
    expect(page.locator("h1")).to_have_text("There is no such page")
    page.get_by_role("link", name="house").click()

    expect(page.locator("h1")).to_have_text("Settings")
    expect(page.get_by_text("sluice keys new --tenant house")).to_be_visible()
    expect(page.locator(".settings .card").first).to_contain_text("attacked")
    expect(page.locator(".settings .card").last).to_contain_text("SLUICE_CHAT")
    tenants, changes = page.locator(".settings .card").nth(1), page.locator(".settings .card").nth(2)
    expect(tenants.get_by_role("row").filter(has_text="house")).to_contain_text("2")
    expect(changes.get_by_text("sign in", exact=True).first).to_be_visible()
    expect(changes).to_contain_text("cancel generations")
    expect(changes).not_to_contain_text("tenants")  # who only looked

    page.get_by_label("Theme").select_option("Dark")
    page.reload()
    expect(page.get_by_label("Theme")).to_have_value("dark")
    expect(page.locator("body")).to_have_css("background-color", "rgb(15, 22, 24)")


def test_a_search_marks_words_explains_and_filters_by_a_click(page: Page) -> None:
    page.goto("/search")
    page.get_by_label("Search your documents").fill("willow herons")

    first = page.locator(".passage").first
    expect(first.locator("mark")).to_have_text(["Herons", "willow"])
    first.get_by_text("Why this passage?").click()
    expect(first.locator(".why")).to_contain_text(re.compile(r"Words: rank 1 in this ranking, BM25 \d"))
    first.get_by_role("button", name="nature").click()
    expect(page).to_have_url(re.compile(r"q=willow.herons&source=nature"))
    expect(page.locator(".passage")).to_have_count(1)
    page.reload()
    expect(page.locator(".passage")).to_have_count(1)


def test_files_are_added_with_their_progress(page: Page, house: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "kite <b>.md").write_text("# Kite\n\nA kite needs wind.")
    (tmp_path / "broken.pdf").write_bytes(BROKEN)
    page.goto("/documents")
    page.get_by_label("into").fill("attic")
    page.get_by_label("Files to add").set_input_files([tmp_path / "kite <b>.md", tmp_path / "broken.pdf"])

    uploads = page.locator(".uploads li")
    expect(uploads.filter(has_text="kite <b>.md")).to_contain_text("Searchable after", timeout=30_000)
    expect(uploads.filter(has_text="broken.pdf")).to_have_class("bad", timeout=30_000)
    expect(page.locator(".document").filter(has_text="attic / kite <b>.md")).to_be_visible()
    assert [item["source"] for item in house.get("/rag/documents?q=kite").json()["items"]] == ["attic"]


def test_a_deletion_can_be_taken_back_and_is_sent_when_its_time_is_over(page: Page, house: httpx.Client) -> None:
    (gone,) = ingested(house, [{"source": "manual", "path": "gone.md", "title": "Gone soon", "text": "Soon."}])
    page.clock.install()
    page.goto("/documents?q=gone")
    row = page.locator(".document").filter(has_text="Gone soon")

    row.get_by_role("button", name="Delete").click()
    expect(page.locator(".notice")).to_contain_text("will be deleted in 8 s")
    page.get_by_role("button", name="Undo").click()
    page.clock.run_for(20_000)
    expect(row).to_be_visible()
    assert house.get(f"/rag/documents/{gone}").json()["state"] == "ready"

    row.get_by_role("button", name="Delete").click()
    expect(row).to_have_class("document leaving")
    with page.expect_response(lambda reply: reply.request.method == "DELETE"):
        page.clock.run_for(9000)
    expect(row).to_have_count(0)
    assert house.get(f"/rag/documents/{gone}").json()["state"] == "deleted"


def test_a_deletion_is_sent_when_the_page_is_left(page: Page, house: httpx.Client) -> None:
    (gone,) = ingested(house, [{"source": "manual", "path": "left.md", "title": "Left behind", "text": "Left."}])
    page.goto("/documents?q=left")
    page.get_by_role("button", name="Delete Left behind").click()
    page.goto("about:blank")

    deadline = time.monotonic() + 60
    while house.get(f"/rag/documents/{gone}").json()["state"] != "deleted":
        assert time.monotonic() < deadline, "the deletion was never sent"
        page.wait_for_timeout(50)  # another process; there is nothing to await


def test_a_document_shows_its_chunks_its_way_and_its_details(page: Page, house: httpx.Client) -> None:
    page.goto("/documents")
    page.get_by_role("link", name="The lamp").click()

    expect(page.locator("h1")).to_have_text("The lamp")
    expect(page.locator(".chunk").first).to_contain_text("The lamp on the pier is lit at six.")
    expect(page.locator(".timeline")).to_contain_text(
        re.compile("Received.*Text read.*after.*Cut into chunks.*after.*Searchable.*after", re.DOTALL)
    )
    expect(page.locator("dl")).to_contain_text("#light")


def test_a_callback_that_was_given_up_says_why(page: Page, house: httpx.Client) -> None:
    body = {"source": "called", "path": "c.md", "text": LAMP, "callbackUrl": "http://127.0.0.1:9/done"}
    document = house.post("/rag/ingest", json=body, headers={"Prefer": "wait=60"}).json()["documentId"]
    while house.get(f"/rag/documents/{document}").json()["callbacks"][0]["state"] != "failed":
        time.sleep(0.1)  # another process: there is nothing to await

    page.goto(f"/documents/{document}")

    expect(page.get_by_text("given up after 1 try: calling 127.0.0.1 is forbidden")).to_be_visible()


def test_title_and_tags_are_edited_in_place_unless_somebody_was_first(page: Page, house: httpx.Client) -> None:
    (id_,) = ingested(house, [{"source": "manual", "path": "bell.md", "title": "Bel", "text": "# Bell\n\nIt rings."}])
    page.goto(f"/documents/{id_}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Title").fill("The bell")
    page.get_by_label("Tags, separated by commas").fill("sound, <i>old</i>")
    page.get_by_role("button", name="Save").click()

    expect(page.locator("h1")).to_have_text("The bell")
    expect(page.locator("dl")).to_contain_text("#<i>old</i>")
    assert house.get(f"/rag/documents/{id_}").json()["tags"] == ["sound", "<i>old</i>"]

    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Title").fill("Too late")
    house.patch(f"/rag/documents/{id_}", json={"title": "First"})
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody else has changed the document.")


def test_a_new_version_keeps_what_describes_the_document(page: Page, house: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "newer.md").write_text("# Another heading\n\nThe oar is blue.")
    document = {"source": "manual", "path": "oar.md", "title": "The oar", "tags": ["wood"], "text": "The oar is red."}
    (id_,) = ingested(house, [document])
    page.goto(f"/documents/{id_}")
    page.get_by_label("A newer version").set_input_files([tmp_path / "newer.md"])

    expect(page.locator(".chunk").first).to_contain_text("The oar is blue.", timeout=30_000)
    expect(page.locator("h1")).to_have_text("The oar")
    expect(page.locator("dl")).to_contain_text("#wood")


def test_description_and_metadata_are_edited_field_by_field(page: Page, house: httpx.Client) -> None:
    metadata = {"year": 1900, "code": "007", "old": True}
    (id_,) = ingested(house, [{"source": "manual", "path": "buoy.md", "text": "A buoy.", "metadata": metadata}])
    page.goto(f"/documents/{id_}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Description").fill("Where it floats")
    page.get_by_label("Value").nth(0).fill("1901")
    page.get_by_role("button", name="Remove this field").nth(2).click()
    page.get_by_role("button", name="Add a field").click()
    page.get_by_label("Name").last.fill("colour")
    page.get_by_label("Value").last.fill("red")
    page.get_by_role("button", name="Save").click()

    expect(page.locator("dl")).to_contain_text("Where it floats")
    document = house.get(f"/rag/documents/{id_}").json()
    assert document["metadata"] == {"year": 1901, "code": "007", "colour": "red"}
    assert document["description"] == "Where it floats"


def test_the_original_is_downloaded_or_said_to_be_gone(page: Page, house: httpx.Client) -> None:
    sent = house.post("/rag/ingest/upload", files={"file": ("tide table.md", b"# Tides\n\nHigh at noon.")}).json()
    page.goto(f"/documents/{sent['documentId']}")
    with page.expect_download() as download:
        page.get_by_role("button", name="Original").click()

    assert download.value.suggested_filename == "tide table.md"
    assert download.value.path().read_bytes() == b"# Tides\n\nHigh at noon."


def test_a_page_of_a_pdf_is_drawn_beside_its_chunks(page: Page, house: httpx.Client) -> None:
    sent = house.post("/rag/ingest/upload", files={"file": ("tide.pdf", a_pdf("High water is at noon."))}).json()
    page.goto(f"/documents/{sent['documentId']}")
    page.get_by_text("Page 1", exact=True).click()

    expect(page.get_by_role("img", name="Page 1")).not_to_have_js_property("naturalWidth", 0)


def test_characters_beyond_the_basic_plane_move_no_chunk(page: Page, house: httpx.Client) -> None:
    text = "# \U0001f6a2 Ship\n\n" + "\n\n".join(
        f"\U0001f6a2 {'Nothing new. ' * 40}Day {day} ends." for day in range(4)
    )
    (id_,) = ingested(house, [{"source": "manual", "path": "ship.md", "text": text}])
    page.goto(f"/documents/{id_}")

    shown = page.locator(".chunk")
    expect(shown.last).to_contain_text("Day 3 ends.")
    whole = " ".join(" ".join(shown.all_inner_texts()).split())
    assert [whole.count(f"Day {day} ends.") for day in range(4)] == [1] * 4
    assert page.locator(".between").count() == 0


def test_the_overview_and_the_generation_show_what_is_there(page: Page) -> None:
    page.goto("/overview")
    expect(page.locator(".tile").first).to_contain_text(re.compile(r"\d+\s*searchable"))
    expect(page.locator(".health")).to_contain_text("Store")
    page.get_by_role("link", name="Generations").click()
    expect(page.locator(".generation")).to_contain_text("384 numbers")


def test_a_generation_is_built_compared_switched_to_and_left_again(page: Page, house: httpx.Client) -> None:
    first = house.get("/ops/generations").json()["serving"]
    page.goto("/generations")
    expect(page.locator(".generation")).to_contain_text("serving")
    limit = {"chunkSize": 200, "limitRate": 1.5}
    second = house.post("/ops/generations/start", json=limit).raise_for_status().json()["id"]
    cards = {id_: page.locator(".generation").filter(has_text=id_) for id_ in (first, second)}
    expect(cards[second]).to_contain_text(re.compile(r"\d+ of \d+ documents"), timeout=20_000)
    expect(cards[second].get_by_role("button", name="Switch")).to_have_count(0)  # it is still being built
    expect(cards[second]).to_contain_text("ready", timeout=120_000)

    cards[second].get_by_role("button", name="Compare").click()
    expect(page.locator(".comparison")).to_contain_text("nDCG@10", timeout=60_000)
    expect(page.locator(".comparison thead")).to_contain_text(second)
    expect(page.locator(".comparison")).to_contain_text("drawn from titles and headings")

    cards[second].get_by_role("button", name="Switch").click()
    cards[second].get_by_role("button", name="Let it answer from now on?").click()
    expect(cards[second]).to_contain_text("serving", timeout=60_000)
    expect(page.locator(".notice").first).to_contain_text(f"Generation {second} serves.")
    cards[first].get_by_role("button", name="Roll back").click()
    cards[first].get_by_role("button", name="Let it answer again?").click()
    expect(cards[first]).to_contain_text("serving", timeout=60_000)
    expect(cards[second]).to_contain_text("retired")
    page.get_by_role("button", name="Drop 1 retired generation").click()
    page.get_by_role("button", name="For good? There is no way back then").click()
    expect(cards[second]).to_have_count(0, timeout=60_000)


def test_a_refused_switch_says_why_and_a_build_is_given_up(page: Page, house: httpx.Client) -> None:
    page.goto("/generations")
    second = house.post("/ops/generations/start", json={"chunkSize": 300}).raise_for_status().json()["id"]
    switch = page.get_by_role("button", name="Switch")
    expect(switch).to_be_visible(timeout=60_000)
    page.clock.install()  # the page looks no more, and doesn't hear that somebody else drops the generation
    switch.click()
    house.post("/ops/generations/cancel", json={}).raise_for_status()
    page.get_by_role("button", name="Let it answer from now on?").click()

    expect(page.get_by_role("alert")).to_contain_text(f"There is no generation {second}")
    expect(page.get_by_role("button", name="Switch without these documents")).to_have_count(0)


def test_a_reader_sees_the_generation_that_answers_and_changes_nothing(
    browser: Browser, server: Server, sessions: dict[str, Any], house: httpx.Client
) -> None:
    context = contexts(browser, server, sessions["key-of-the-reader"])
    page = context.new_page()
    page.goto("/generations")
    expect(page.locator(".generation")).to_contain_text("384 numbers")
    expect(page.locator(".generations button")).to_have_count(0)
    context.close()


def test_a_dead_letter_is_read_sent_again_and_dropped(page: Page, house: httpx.Client) -> None:
    house.post("/rag/ingest/upload", files={"file": ("torn.pdf", BROKEN)})
    page.goto("/dead-letters")
    letter = page.locator(".letter").filter(has_text="torn.pdf")
    letter.get_by_text("The record").click()
    expect(letter.locator(".record")).to_contain_text("Download the value")

    letter.get_by_role("button", name="Try again").click()
    expect(page.locator(".notice").first).to_contain_text("It is processed again.")
    page.reload()
    letter.get_by_role("button", name="Drop").click()
    letter.get_by_role("button", name="Drop it for good?").click()

    expect(page.locator(".notice").first).to_contain_text("Dropped")
    expect(letter).to_have_count(0)


def test_keys_are_enough(page: Page) -> None:
    page.goto("/search")
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("/")
    page.keyboard.type("lamp oil")
    expect(page.locator(".passage")).not_to_have_count(0)
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")

    reached = set()
    for _ in range(100):  # facets have a link for each value
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim().slice(0, 20)"))

    assert {"Skip to the page", "The lamp", "Why this passage?", "Sign out"} - {"Sign out"} <= reached


def test_a_person_signs_in_and_sees_what_the_key_may(browser: Browser, server: Server, house: httpx.Client) -> None:
    context = opened(browser, base_url=server.url)
    page = context.new_page()
    page.goto("/documents")
    page.get_by_label("API key").fill("not-a-key-at-all")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("This server doesn't know that key.")
    page.get_by_label("API key").fill("key-of-the-reader")
    page.get_by_role("button", name="Sign in").click()

    expect(page.locator(".document").first).to_be_visible()
    expect(page.get_by_role("button", name="Add files")).to_have_count(0)
    expect(page.get_by_role("button", name=re.compile(r"^Delete\b"))).to_have_count(0)
    expect(page.get_by_role("link", name="Dead letters")).to_be_hidden()
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    assert context.cookies() == []
    context.close()


def views(ids: list[str]) -> list[str]:
    return [
        "/",
        "/search?q=harbour+says",
        "/documents",
        f"/documents/{ids[0]}",
        "/overview",
        "/generations",
        "/dead-letters",
        "/settings",
        "/help/configuration",
    ]


def settled(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    shown = {"search": ".passage", "documents": ".document, .chunk", "overview": ".tile", "dead-letters": ".letter"}
    wanted = shown.get(path.strip("/").partition("?")[0].partition("/")[0])
    if wanted:
        expect(page.locator(wanted).first).to_be_visible()


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.timeout(3600 if "SLUICE_TEST_COUNT" in os.environ else 240)
def test_hostile_documents_run_nothing_and_break_no_page(
    browser: Browser, server: Server, sessions: dict[str, Any], attacked: list[str], size: tuple[int, int]
) -> None:
    context = contexts(browser, server, sessions[ATTACKED], size)
    watched = Watched(context.new_page())
    page = watched.page
    broken = {}
    # Every kind of document is shown whole, and in every list; in the long run, every document.
    shown = attacked[1:] if "SLUICE_TEST_COUNT" in os.environ else attacked[1 : len(HOSTILE)]
    for path in [*views(attacked), *(f"/documents/{id_}" for id_ in shown)]:
        settled(page, path)
        while path == "/documents" and page.get_by_role("button", name="Show more").is_visible():
            rows = page.locator(".document").count()
            page.get_by_role("button", name="Show more").click()
            expect(page.locator(".document")).not_to_have_count(rows)
        if path == "/dead-letters":
            page.get_by_text("The record").first.click()
            expect(page.locator(".record pre").first).to_be_visible()
        if (seen := page.evaluate(BEYOND)) != {"out": [], "scrolls": 0, "ran": None}:
            broken[path] = seen
    page.goto("/")
    page.get_by_label("Your question").fill("What does the harbour say?")
    page.keyboard.press("Enter")
    expect(page.locator(".sources .passage, .answer > :not(.waiting)").first).to_be_visible(timeout=30_000)
    if (seen := page.evaluate(BEYOND)) != {"out": [], "scrolls": 0, "ran": None}:
        broken["answer"] = seen
    context.close()

    assert broken == {}
    assert watched.wrong == []
    assert [url for url in watched.asked if not url.startswith(server.url)] == []


@pytest.mark.parametrize(
    ("size", "scheme"), [(WIDE, "light"), (TABLET, "light"), (PHONE, "dark")], ids=["wide", "tablet", "phone"]
)
def test_axe_finds_nothing_serious(
    browser: Browser,
    server: Server,
    sessions: dict[str, Any],
    attacked: list[str],
    size: tuple[int, int],
    scheme: Scheme,
) -> None:
    context = contexts(browser, server, sessions[ATTACKED], size, scheme)
    page = context.new_page()
    found = {}
    for path in views(attacked):
        settled(page, path)
        report = Axe().run(page).response
        serious = [
            (each["id"], [node["target"] for node in each["nodes"]][:3])
            for each in report["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        if serious:
            found[path] = serious
    context.close()

    assert found == {}
