"""Nothing leads to where it must not: a table of spellings, of redirects, and names that change what they mean."""

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from services.ingest_worker.fetch import Fetcher, FetchLimits
from services.ingest_worker.fetch.guard import Guard
from shared.errors import Rejected
from shared.log.failure import Backoff
from shared.settings import ConfigurationError
from tests.selection import CI_ONLY
from tests.servers.loopback import running
from tests.servers.website import Answer, Website, a_page, to
from tests.unit.services.ingest_worker.fetch.hook import only
from tests.unit.services.ingest_worker.fetch.spellings import NAMES, PUBLIC, SPELLINGS, resolved, row

TRIALS = 1000
FORBIDDEN = {"url", "address_refused"}


def a_fetcher(allow: str = "", resolver: Callable[..., Any] = resolved, *, robots: bool = False) -> Fetcher:
    limits = FetchLimits(patience_s=30, at_once=16, delay_s=0, turn_s=30, robots=robots)
    return Fetcher(Guard(allow, resolver=resolver), limits, backoff=Backoff(0, 0))


async def refusal(fetcher: Fetcher, url: str) -> Rejected:
    with pytest.raises(Rejected) as refused:
        async with fetcher.page(url, tenant="t"):
            pass
    return refused.value


def test_the_table_is_large_enough() -> None:
    assert len(set(SPELLINGS)) >= 150
    assert len(set(REDIRECTS)) >= 30


@pytest.mark.parametrize("robots", [False, True], ids=["", "robots"])
async def test_no_spelling_of_a_forbidden_address_is_connected_to(*, robots: bool) -> None:
    fetcher = a_fetcher(robots=robots)
    codes: dict[str, str] = {}

    with only() as watch:
        for url in SPELLINGS:
            codes[url] = (await refusal(fetcher, url)).code
    await fetcher.close()

    assert watch.refused == []
    # One that no resolver knows ends as a host that isn't there.
    assert {url for url, code in codes.items() if code not in FORBIDDEN | {"fetch_failed"}} == set()
    assert sum(code in FORBIDDEN for code in codes.values()) >= 150


async def test_the_hook_sees_what_is_let_through() -> None:
    fetcher = a_fetcher()

    with only() as watch:
        for host in (PUBLIC, "public.example", "public6.example"):
            assert (await refusal(fetcher, f"http://{host}/")).code == "fetch_failed"
    await fetcher.close()

    assert {address[0] for address in watch.refused} == {PUBLIC, NAMES["public6.example"][0]}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=CI_ONLY) for seed in range(1, 4))])
async def test_a_name_that_means_another_address_each_time_is_never_followed_inside(seed: int) -> None:
    rng = random.Random(f"rebinding {seed}")
    inside = [
        answer for name, answers in NAMES.items() if "public" not in name for answer in answers if answer != PUBLIC
    ]
    inside = [each for each in inside if each != NAMES["public6.example"][0]]
    public = [PUBLIC, "1.1.1.1", "8.8.8.8", NAMES["public6.example"][0]]
    lookups = 0

    def rebinding(host: Any, port: int, *_: Any) -> Iterable[Any]:
        nonlocal lookups
        lookups += 1
        answers = rng.choice([public, inside, [*inside, *public]])
        return [row(answer, port) for answer in rng.choices(answers, k=rng.randint(1, 3))]

    with only() as watch:
        fetcher = a_fetcher(resolver=rebinding)
        for trial in range(TRIALS // 4):
            await refusal(fetcher, f"http://r{trial}.example/")
        await fetcher.close()

    assert lookups >= TRIALS // 4
    assert watch.refused, "some of the answers were public, and these were tried"
    assert [address for address in watch.refused if address[0] not in public] == []


REDIRECTS = [
    "http://127.0.0.1:{inner}/",
    "http://localhost:{inner}/",
    "http://[::1]:{inner}/",
    "http://[::ffff:127.0.0.1]:{inner}/",
    "http://0.0.0.0:{inner}/",
    "http://0:{inner}/",
    "http://127.1:{inner}/",
    "http://2130706433:{inner}/",
    "http://0x7f.1:{inner}/",
    "http://0177.0.0.1:{inner}/",
    "http://127.0.0.1.:{inner}/",
    "http://127。0。0。1:{inner}/",
    "//127.0.0.1:{inner}/",
    "//localhost:{inner}/secret",
    "///127.0.0.1:{inner}/",
    "\\\\127.0.0.1:{inner}/",
    "/\\127.0.0.1:{inner}/",
    "https://127.0.0.1:{inner}/",
    "HTTP://127.0.0.1:{inner}/",
    " http://127.0.0.1:{inner}/ ",
    "http:127.0.0.1:{inner}/",
    "http:/127.0.0.1:{inner}/",
    "http://start.test@127.0.0.1:{inner}/",
    "http://start.test:{outer}@127.0.0.1:{inner}/",
    "http://start.test:{outer}\\@127.0.0.1:{inner}/",
    "http://127.0.0.1:{inner}#@start.test/",
    "http://start.test.127.0.0.1.nip.io:{inner}/",
    "http://127.0.0.1.nip.io:{inner}/",
    "http://mixed.example:{inner}/",
    "http://169.254.169.254/latest/meta-data/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://[64:ff9b::7f00:1]:{inner}/",
    "http://[fe80::1%25lo]:{inner}/",
    "http://qdrant:6333/collections",
    "file:///etc/passwd",
    "gopher://127.0.0.1:{inner}/_x",
    "ftp://127.0.0.1:{inner}/",
    "data:text/html,hello",
    "javascript:alert(1)",
    "unix:///var/run/docker.sock",
    "/loop",
    "/hop1",
]


def at_start(host: Any, port: int, *how: Any) -> Iterable[Any]:
    """Resolve the one host that is allowed to the website, the others as a hostile resolver does."""
    name = host.decode() if isinstance(host, bytes) else host
    return [row("127.0.0.1", port)] if name == "start.test" else resolved(host, port, *how)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_leads_to_a_forbidden_address(status: int) -> None:
    async with running(Website({"/": a_page("inside")})) as inner, running(Website()) as outer:
        ports = {"inner": inner.host.rpartition(":")[2], "outer": outer.host.rpartition(":")[2]}
        start = f"http://start.test:{ports['outer']}"
        outer.pages |= {f"/{n}": to(shape.format(**ports), status) for n, shape in enumerate(REDIRECTS)}
        outer.pages["/loop"] = to("/loop", status)
        outer.pages |= {f"/hop{n}": to(f"/hop{n + 1}", status) for n in range(5)}
        outer.pages["/hop5"] = to(f"http://127.0.0.1:{ports['inner']}/", status)
        fetcher = a_fetcher("start.test", at_start)
        codes = {}

        with only(("127.0.0.1", int(ports["outer"]))) as watch:
            for n, shape in enumerate(REDIRECTS):
                codes[shape] = (await refusal(fetcher, f"{start}/{n}")).code
        await fetcher.close()

        assert watch.refused == []
        assert inner.requests == []
        # `/\127…` and its like are paths of the same host: they aren't there.
        assert {shape for shape, code in codes.items() if code not in FORBIDDEN | {"redirects", "http_404"}} == set()
        assert len([path for path in outer.asked if path == "/loop"]) <= 6


async def test_a_redirect_within_the_allowed_host_is_followed() -> None:
    async with running(Website({"/a": to("/b"), "/b": to("//start.test:{}/c"), "/c": a_page("there")})) as website:
        port = website.host.rpartition(":")[2]
        website.pages["/b"] = to(f"//start.test:{port}/c#part")
        fetcher = a_fetcher("start.test", at_start)

        async with fetcher.page(f"http://start.test:{port}/a", tenant="t") as page:
            assert page is not None
            assert page.url == f"http://start.test:{port}/c"
            assert b"there" in page.body
        await fetcher.close()


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"])
async def test_no_proxy_of_the_environment_is_used(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(Website({"/": a_page("here")})) as website, running(Website({"/": a_page("proxy")})) as proxy:
        monkeypatch.setenv(variable, proxy.url)
        fetcher = a_fetcher("127.0.0.0/8")

        async with fetcher.page(website.url, tenant="t") as page:
            assert page is not None
            assert b"here" in page.body
        await fetcher.close()

        assert proxy.requests == []


@pytest.mark.parametrize("allow", ["127.0.0.1:{port}", "127.0.0.0/8:{port}", "*.test:{port}", "start.test:{port}"])
async def test_an_allowed_port_opens_no_other(allow: str) -> None:
    async with running(Website({"/": a_page("here")})) as website:
        port = website.url.rpartition(":")[2]
        fetcher = a_fetcher(allow.format(port=port), lambda _, at, *__: [row("127.0.0.1", at)])

        async with fetcher.page(f"http://start.test:{port}/", tenant="t") as page:
            assert page is not None
        for other in ("http://start.test/", "http://start.test:8080/", "http://start.test:5678/"):
            assert (await refusal(fetcher, other)).code == "address_refused"
        await fetcher.close()


async def test_an_allowed_ipv6_network_has_its_port_behind_brackets() -> None:
    fetcher = a_fetcher("[::1]:5678", lambda _, at, *__: [row("::1", at)])

    with only() as watch:
        assert (await refusal(fetcher, "http://start.test:5678/")).code == "fetch_failed"
        assert (await refusal(fetcher, "http://start.test/")).code == "address_refused"
    await fetcher.close()

    assert {address[:2] for address in watch.refused} == {("::1", 5678)}


async def test_no_name_is_sent_along_and_the_answer_s_cookies_are_forgotten() -> None:
    told = Answer(b"<p>hello</p>", headers=("set-cookie: a=b", "content-type: text/html"))
    async with running(Website({"/": told})) as website:
        fetcher = a_fetcher("127.0.0.1")
        for _ in range(2):
            async with fetcher.page(website.url, tenant="t"):
                pass
        await fetcher.close()

        assert [sorted(sent) for sent in website.sent] == [["accept", "accept-encoding", "host", "user-agent"]] * 2


@pytest.mark.parametrize(
    "allow",
    [
        *("http://wiki", "10.0.0.1/8", "10.0.0.0/40", "a b", "64:ff9b::/96", "::/96", "127.1"),
        *("wiki:0", "wiki:http", "10.0.0.0/8:", "[::1", "[64:ff9b::/96]:80"),
    ],
)
def test_an_allow_list_that_cannot_be_meant_stops_the_start(allow: str) -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_FETCH_ALLOW"):
        Guard(allow)
