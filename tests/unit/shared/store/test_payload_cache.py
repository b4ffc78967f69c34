from shared.store.payload_cache import CachedPayload, PayloadCache


def a_payload(size: int) -> CachedPayload:
    return CachedPayload("d", 1, bytes(size))


def test_the_payload_that_was_unused_for_longest_goes_first() -> None:
    cache = PayloadCache(100)
    for name in "abc":
        cache.put(name, a_payload(30))
    assert cache.get("a") == a_payload(30)

    cache.put("d", a_payload(30))

    assert [name for name in "abcd" if cache.get(name)] == ["a", "c", "d"]


def test_a_payload_that_is_replaced_or_dropped_takes_no_room() -> None:
    cache = PayloadCache(100)
    for _ in range(9):
        cache.put("a", a_payload(60))
    cache.drop(["a", "b"])
    cache.put("c", a_payload(90))
    assert (cache.get("a"), cache.get("c")) == (None, a_payload(90))

    cache.put("d", a_payload(101))

    assert (cache.get("c"), cache.get("d")) == (None, None), "one that is larger than all the room isn't kept"
    cache.put("e", a_payload(100))
    cache.drop(["e"])
    cache.put("f", a_payload(100))
    assert (cache.get("e"), cache.get("f")) == (None, a_payload(100))
