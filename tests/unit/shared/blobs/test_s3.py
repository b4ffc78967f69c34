"""The bucket behind `s3://`: what outages, proxies, refusals and bad timing make of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shared.blobs import collect
from shared.blobs.open import open_blobs
from shared.blobs.s3 import S3Blobs
from shared.blobs.s3_address import S3Address, s3_address
from shared.contracts import BlobRef
from shared.errors import Unavailable
from shared.settings import ConfigurationError
from tests.servers.ports import free_port
from tests.servers.s3 import Bucket, Fault

DOCUMENT = "0f8fad5b-d9cb-569f-a165-70867728950e"
DAY = 24 * 3600.0
BODY = b"body " * 1000
GUARD_S = 30.0


@pytest.fixture
def blobs(s3_bucket: Bucket) -> S3Blobs:
    return a_store(s3_bucket)


def a_store(bucket: Bucket, timeout_s: float = GUARD_S) -> S3Blobs:
    return S3Blobs(s3_address(bucket.setting), timeout_s=timeout_s)


async def each_call(blobs: S3Blobs, ref: BlobRef) -> list[Any]:
    """Return what every method of the port gives or raises."""
    calls = (
        blobs.put("acme", DOCUMENT, BODY),
        blobs.get("acme", DOCUMENT, ref),
        collect(blobs, ("acme", DOCUMENT), frozenset(), -1),
    )
    return list(await asyncio.gather(*calls, return_exceptions=True))


def sentences(raised: list[Any]) -> list[str]:
    assert [type(each) for each in raised] == [Unavailable] * 3, raised
    return [each.sentence for each in raised]


async def test_the_key_is_prefix_tenant_document_hash_and_put(blobs: S3Blobs, s3_bucket: Bucket) -> None:
    ref = await blobs.put("acme", DOCUMENT, BODY)
    [key] = s3_bucket.objects()

    assert key.startswith(f"kept/here/acme/{DOCUMENT}/{ref.sha256}/")

    await blobs.put("acme", DOCUMENT, BODY)
    [other] = s3_bucket.objects()
    assert other != key


@pytest.mark.parametrize("fault", ["500", "503"])
async def test_a_server_that_fails_is_unavailable(blobs: S3Blobs, s3_bucket: Bucket, fault: Fault) -> None:
    ref = await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.server.fail(fault)

    said = sentences(await each_call(blobs, ref))

    assert set(said) == {f"the bucket {s3_bucket.name} at {s3_bucket.server.url}: it answered {fault}"}
    s3_bucket.server.mend()
    assert await blobs.get("acme", DOCUMENT, ref) == BODY


async def test_one_failure_of_a_server_is_not_even_told(blobs: S3Blobs, s3_bucket: Bucket) -> None:
    ref = await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.server.fail("500", times=1)

    assert await blobs.get("acme", DOCUMENT, ref) == BODY


async def test_a_body_that_is_cut_is_unavailable_and_never_altered(blobs: S3Blobs, s3_bucket: Bucket) -> None:
    ref = await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.server.fail("cut")

    raised = await each_call(blobs, ref)

    assert [type(each) for each in raised[1:]] == [Unavailable] * 2
    s3_bucket.server.mend()
    assert await blobs.get("acme", DOCUMENT, await blobs.put("acme", DOCUMENT, BODY)) == BODY


async def test_a_refusal_names_what_to_check(blobs: S3Blobs, s3_bucket: Bucket) -> None:
    ref = await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.server.fail("403")

    said = sentences(await each_call(blobs, ref))

    [sentence] = set(said)
    assert sentence == (
        f"the bucket {s3_bucket.name} at {s3_bucket.server.url}: it answered 403 AccessDenied: No such key here "
        "(check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, the region, and what the bucket allows them)"
    )


async def test_a_bucket_that_is_not_there_is_an_outage_and_no_missing_blob(s3_bucket: Bucket) -> None:
    elsewhere = S3Blobs(S3Address(bucket="no-such-bucket", endpoint=s3_bucket.server.url, style="path"))

    said = sentences(await each_call(elsewhere, BlobRef(sha256="0" * 64, size=0)))

    assert [sentence.partition(": it ")[2] for sentence in said] == [
        "answered 404 NoSuchBucket: The specified bucket does not exist"
    ] * 3


async def test_a_page_of_a_proxy_is_an_outage_and_no_missing_blob(blobs: S3Blobs, s3_bucket: Bucket) -> None:
    ref = await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.server.fail("page")

    put, got, collected = await each_call(blobs, ref)

    assert isinstance(put, Unavailable)
    for each in (got, collected):  # an erasure mustn't seem done
        assert isinstance(each, Unavailable)
        assert "doesn't answer like an S3 bucket" in each.sentence


async def test_a_list_that_names_what_is_not_there_is_an_outage_and_no_missing_blob(s3_bucket: Bucket) -> None:
    blobs = a_store(s3_bucket)
    ref = await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.server.fail("gone")

    with pytest.raises(Unavailable, match=r"lists the blob .*, but answers that it doesn't exist"):
        await blobs.get("acme", DOCUMENT, ref)
    with pytest.raises(Unavailable, match="it answered 404 NoSuchKey"):
        await blobs.put("acme", DOCUMENT, BODY)


async def test_a_server_that_is_away_is_unavailable(s3_bucket: Bucket) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    away = S3Blobs(S3Address(bucket="docs", endpoint=url, style="path"))

    said = sentences(await each_call(away, BlobRef(sha256="0" * 64, size=0)))

    assert [sentence for sentence in said if not sentence.startswith(f"the bucket docs at {url}: ")] == []


async def test_a_server_that_hangs_is_given_up(s3_bucket: Bucket) -> None:
    ref = await a_store(s3_bucket).put("acme", DOCUMENT, BODY)
    s3_bucket.server.fail("hang")

    said = sentences(await each_call(a_store(s3_bucket, timeout_s=0.3), ref))

    assert set(said) == {f"the bucket {s3_bucket.name} at {s3_bucket.server.url} gave no answer in 0.3 s"}


async def test_the_loop_turns_while_the_server_hangs(s3_bucket: Bucket) -> None:
    blobs = a_store(s3_bucket)
    s3_bucket.server.fail("hang")

    putting = asyncio.create_task(blobs.put("acme", DOCUMENT, BODY))
    assert await asyncio.to_thread(s3_bucket.server.arrived.wait, GUARD_S)
    assert not putting.done()
    s3_bucket.server.mend()

    assert (await putting).size == len(BODY)


async def test_who_stops_waiting_leaves_the_store_usable(s3_bucket: Bucket) -> None:
    blobs = a_store(s3_bucket)
    s3_bucket.server.fail("hang")
    putting = asyncio.create_task(blobs.put("acme", DOCUMENT, BODY))
    assert await asyncio.to_thread(s3_bucket.server.arrived.wait, GUARD_S)

    putting.cancel()
    await asyncio.gather(putting, return_exceptions=True)
    s3_bucket.server.mend()

    assert putting.cancelled()
    assert await blobs.get("acme", DOCUMENT, await blobs.put("acme", DOCUMENT, BODY)) == BODY


async def test_a_blob_put_again_while_it_is_removed_is_there(s3_bucket: Bucket) -> None:
    blobs = a_store(s3_bucket)
    ref = await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.age(2 * DAY)
    s3_bucket.server.fail("hang", method="POST", times=1)  # how a bucket deletes

    removing = asyncio.create_task(collect(blobs, ("acme", DOCUMENT), frozenset(), DAY))
    assert await asyncio.to_thread(s3_bucket.server.arrived.wait, GUARD_S)  # it has seen what is old
    await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.server.mend()
    await removing

    assert await blobs.get("acme", DOCUMENT, ref) == BODY


async def test_a_blob_put_again_while_it_is_read_is_read(s3_bucket: Bucket) -> None:
    blobs = a_store(s3_bucket)
    ref = await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.server.fail("hang", method="GET", after=1, times=1)  # not the list

    reading = asyncio.create_task(blobs.get("acme", DOCUMENT, ref))
    assert await asyncio.to_thread(s3_bucket.server.arrived.wait, GUARD_S)  # it asks for what is replaced now
    await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.server.mend()

    assert await reading == BODY


async def test_an_old_copy_of_a_blob_goes_and_the_young_one_stays(s3_bucket: Bucket) -> None:
    blobs = a_store(s3_bucket)
    ref = await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.age(2 * DAY)
    s3_bucket.server.fail("500", method="POST")
    with pytest.raises(Unavailable):  # it couldn't clear away
        await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.server.mend()
    assert len(s3_bucket.objects()) == 2

    await collect(blobs, ("acme", DOCUMENT), frozenset(), DAY)

    assert len(s3_bucket.objects()) == 1
    assert await blobs.get("acme", DOCUMENT, ref) == BODY


async def test_the_later_put_wins_over_one_that_was_stopped_before_it_cleared_away(s3_bucket: Bucket) -> None:
    blobs = a_store(s3_bucket)
    ref = await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.server.fail("hang", method="POST", times=1)
    slow = asyncio.create_task(blobs.put("acme", DOCUMENT, BODY))
    assert await asyncio.to_thread(s3_bucket.server.arrived.wait, GUARD_S)

    await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.server.mend()
    await slow

    assert len(s3_bucket.objects()) == 1
    assert await blobs.get("acme", DOCUMENT, ref) == BODY


async def test_a_whole_copy_counts_beside_a_damaged_one(s3_bucket: Bucket) -> None:
    blobs = a_store(s3_bucket)
    ref = await blobs.put("acme", DOCUMENT, BODY)
    s3_bucket.age(DAY)
    whole = set(s3_bucket.objects())
    s3_bucket.server.fail("hang", method="POST", times=1)
    putting = asyncio.create_task(blobs.put("acme", DOCUMENT, BODY))
    assert await asyncio.to_thread(s3_bucket.server.arrived.wait, GUARD_S)
    for key in s3_bucket.objects().keys() - whole:
        s3_bucket.objects()[key].value = b"damaged"

    assert await blobs.get("acme", DOCUMENT, ref) == BODY

    s3_bucket.server.mend()
    await putting


async def test_a_document_of_many_blobs_is_deleted_whole(blobs: S3Blobs, s3_bucket: Bucket) -> None:
    await asyncio.gather(*(blobs.put("acme", DOCUMENT, str(number).encode()) for number in range(30)))

    assert await collect(blobs, ("acme", DOCUMENT), frozenset(), -60.0) == 30
    assert s3_bucket.objects() == {}


@pytest.mark.parametrize(
    ("setting", "address"),
    [
        ("s3://docs", S3Address("docs")),
        ("s3://docs/", S3Address("docs")),
        ("s3://docs/a/b/", S3Address("docs", "a/b")),
        ("s3://docs?region=eu-central-1&style=path", S3Address("docs", region="eu-central-1", style="path")),
        ("s3://docs/a?endpoint=http://minio:9000", S3Address("docs", "a", "http://minio:9000", style="path")),
        (
            "s3://docs?endpoint=https://s3.example.org/&style=virtual",
            S3Address("docs", endpoint="https://s3.example.org", style="virtual"),
        ),
    ],
)
def test_the_setting_names_bucket_prefix_and_server(setting: str, address: S3Address) -> None:
    assert s3_address(setting, {}) == address


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_amazon_s_own_variable_names_the_server_unless_the_setting_does(variable: str) -> None:
    environ = {"AWS_ENDPOINT_URL": "http://general:1", variable: "http://minio:9000"}

    assert s3_address("s3://docs", environ) == S3Address("docs", endpoint="http://minio:9000", style="path")
    assert s3_address("s3://docs?endpoint=http://other:1", environ).endpoint == "http://other:1"


async def test_the_setting_s_server_goes_before_amazon_s_variable(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{free_port()}")
    blobs = a_store(s3_bucket)

    assert await blobs.get("acme", DOCUMENT, await blobs.put("acme", DOCUMENT, BODY)) == BODY


@pytest.mark.usefixtures("s3_bucket")  # for its credentials
def test_the_style_virtual_puts_the_bucket_before_the_host() -> None:
    # By what the client was given: no host name of a test's own is sure to be found.
    store = S3Blobs(S3Address("docs", endpoint="https://s3.example.org", style="virtual"))._store

    assert dict(store.config)["endpoint_url_s3"] == "https://docs.s3.example.org"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("s3://", "'' is not a valid bucket name"),
        ("s3:docs", "'' is not a valid bucket name"),
        ("s3://Docs", "'Docs' is not a valid bucket name"),
        ("s3://a", "'a' is not a valid bucket name"),
        ("s3://docs:80", "'docs:80' is not a valid bucket name"),
        ("s3://docs/a//b", "the prefix 'a//b' may contain only"),
        ("s3://docs/../b", "the prefix '../b' may contain only"),
        ("s3://docs/a/.", "the prefix 'a/.' may contain only"),
        ("s3://docs/a b", "the prefix 'a b' may contain only"),
        ("s3://docs?colour=red", "colour is unknown; the parameters are endpoint"),
        ("s3://docs?style=none", "style=none must be path or virtual"),
        ("s3://docs?style", "bad query field: 'style'"),
        ("s3://docs?endpoint=minio:9000", "the endpoint minio:9000 must be http:// or https://"),
        ("s3://docs?endpoint=ftp://minio", "the endpoint ftp://minio must be http:// or https://"),
        ("s3://docs?endpoint=http://minio:99999", "the endpoint http://minio:99999 must be"),
        ("s3://docs?endpoint=http://minio/path", "the endpoint http://minio/path must be"),
        ("s3://docs#x", "must look like s3://bucket/prefix?endpoint="),
    ],
)
def test_a_setting_that_can_not_work_is_refused_by_name_and_value(setting: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        s3_address(setting, {})

    assert str(caught.value).startswith(f"SLUICE_BLOBS={setting}")
    assert said in str(caught.value)


def test_credentials_in_the_setting_are_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as caught:
        s3_address("s3://AKIA:secret@docs/a", {})

    assert "AWS_SECRET_ACCESS_KEY" in str(caught.value)
    assert "secret@" not in str(caught.value)


def test_half_of_the_credentials_stops_the_start(s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    with pytest.raises(ConfigurationError, match=r"SLUICE_BLOBS: the bucket .*: Missing SecretAccessKey"):
        open_blobs(s3_bucket.setting, Path("unused"))
