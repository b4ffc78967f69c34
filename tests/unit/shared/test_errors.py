import pytest

from shared.errors import Rejected, Unavailable, masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "kafka://me:secret@a:9092,b:9092?ssl_password=x&compression=lz4",
            "kafka://***@a:9092,b:9092?ssl_password=***&compression=lz4",
        ),
        ("fast=openai+https://u:p@host/v1/m,ollama://host/m", "fast=openai+https://***@host/v1/m,ollama://host/m"),
        ("ollama://host/m,slow=openai+https://u:p@b/v1/m", "ollama://host/m,slow=openai+https://***@b/v1/m"),
        ("https://key@host/path is wrong", "https://***@host/path is wrong"),
        ("SLUICE_STORE=qdrant+http://me:pa/ss@h:x is wrong", "SLUICE_STORE=qdrant+http://***@h:x is wrong"),
        ("SLUICE_STORE=me:pa@ss@h:6333 is wrong", "SLUICE_STORE=***@h:6333 is wrong"),
        ("https://a.example/x?page=2&access_token=abc", "https://a.example/x?page=2&access_token=***"),
        ("it must be kafka://user:password@…", "it must be kafka://user:password@…"),
        ("ollama://host:11434/nomic-embed-text", "ollama://host:11434/nomic-embed-text"),
        ("https://medium.com/@tea/page and tea@example.org", "https://medium.com/@tea/page and tea@example.org"),
    ],
)
def test_passwords_of_addresses_are_not_shown(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert str(Unavailable(text)) == Rejected(text).sentence == shown
