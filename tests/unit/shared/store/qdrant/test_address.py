import pytest

from shared.settings import ConfigurationError
from shared.store.qdrant.address import QdrantAddress, qdrant_address


@pytest.mark.parametrize(
    ("setting", "address"),
    [
        ("qdrant+http://q", QdrantAddress(url="http://q:6333")),
        ("qdrant+http://q:6333/", QdrantAddress(url="http://q:6333")),
        ("qdrant+https://q.example", QdrantAddress(url="https://q.example:6333")),
        ("qdrant+http://[::1]:6333", QdrantAddress(url="http://[::1]:6333")),
        ("qdrant+http://[::1]", QdrantAddress(url="http://[::1]:6333")),
        ("qdrant+https://q:443/vectors/", QdrantAddress(url="https://q:443/vectors")),
        ("qdrant+http://q:7333", QdrantAddress(url="http://q:7333")),
        (
            "qdrant+https://q?replicas=3&shards=2&ca=/etc/ca.pem",
            QdrantAddress(url="https://q:6333", replicas=3, shards=2, ca="/etc/ca.pem"),
        ),
    ],
)
def test_a_setting_names_a_server(setting: str, address: QdrantAddress) -> None:
    assert qdrant_address(setting) == address


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("qdrant:", "must be edge: or"),
        ("qdrant+http://", "must be edge: or"),
        ("qdrant+http://:6333", "must be edge: or"),
        ("qdrant+ftp://q", "must be edge: or"),
        ("http://q:6333", "must be edge: or"),
        ("qdrant+http://q#x", "must be edge: or"),
        ("qdrant+http://q:0", "must be edge: or"),
        ("qdrant+http://q:x", "=qdrant.*x"),
        ("qdrant+http://q:70000", "=qdrant.*70000"),
        ("qdrant+http://[::1", "=qdrant.*is not an address"),
        ("qdrant+http://q?replica=1", "unknown option 'replica'; the options are replicas, shards, ca"),
        ("qdrant+http://q?replicas=0", "replicas=0 must be 1 to 1000"),
        ("qdrant+http://q?shards=-1", "shards=-1 must be 1 to 1000"),
        ("qdrant+http://q?shards=²", "shards=² must be 1 to 1000"),
        ("qdrant+http://q?ca=/etc/ca.pem", "ca=/etc/ca.pem needs qdrant\\+https://"),
    ],
)
def test_another_shape_is_refused_with_what_is_wrong(setting: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^SLUICE_STORE.*{message}"):
        qdrant_address(setting)


@pytest.mark.parametrize("setting", ["qdrant+http://me:secret@q", "qdrant+http://secret@q:6333"])
def test_a_key_in_the_url_is_refused_without_telling_it(setting: str) -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_QDRANT_API_KEY") as caught:
        qdrant_address(setting)
    assert "secret" not in str(caught.value)
