import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from shared.log.kafka.address import KafkaAddress, kafka_address
from shared.settings import ConfigurationError


def test_hosts_without_a_port_get_kafkas_own() -> None:
    address = kafka_address("kafka://one:19092,two,[::1],[fe80::1]:9093")

    assert address.servers == ("one:19092", "two:9092", "[::1]:9092", "[fe80::1]:9093")
    assert address.connection()["security_protocol"] == "PLAINTEXT"
    assert address.connection()["ssl_context"] is None


def test_every_option_is_read() -> None:
    address = kafka_address(
        "kafka://worker:pa%40ss%2Fw%3Ard@host?security_protocol=SASL_PLAINTEXT&sasl_mechanism=SCRAM-SHA-512"
        "&group_instance_id=embed-1&compression=zstd&ssl_cafile=ca.pem"
    )

    assert address == KafkaAddress(
        servers=("host:9092",),
        username="worker",
        password="pa@ss/w:rd",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        ssl_cafile="ca.pem",
        group_instance_id="embed-1",
        compression="zstd",
    )
    assert address.connection()["sasl_plain_password"] == "pa@ss/w:rd"


def test_the_password_may_be_a_secret_of_its_own_as_it_is() -> None:
    address = kafka_address("kafka://worker@host?sasl_mechanism=SCRAM-SHA-512", SecretStr("pa@ss%2F/w?rd"))

    assert (address.username, address.password) == ("worker", "pa@ss%2F/w?rd")
    assert address.security_protocol == "SASL_PLAINTEXT"
    assert kafka_address("kafka://worker:own@host", SecretStr("")).password == "own"


@pytest.mark.parametrize("setting", ["kafka://worker:own@host", "kafka://host"])
def test_a_password_that_is_nobody_s_or_a_second_one_is_refused(setting: str) -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_LOG_PASSWORD needs a user without a password"):
        kafka_address(setting, SecretStr("another"))


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("kafka://", "'' must be a host"),
        ("kafka://host:0", "'host:0'"),
        ("kafka://host:99999", "'host:99999'"),
        ("kafka://a,,b", "''"),
        ("kafka://host/topic", "'host/topic'"),
        ("kafka://host?acks=1", "unknown option 'acks'; the options are security_protocol"),
        ("kafka://host?sasl_mechanism=GSSAPI", "sasl_mechanism=GSSAPI must be one of PLAIN"),
        ("kafka://host?compression=brotli", "compression=brotli must be one of gzip"),
        ("kafka://host?replication=3", "unknown option 'replication'"),
        ("kafka://host?security_protocol=SASL_SSL", "SASL_SSL needs a user and a password"),
        ("kafka://user@host", "SASL_PLAINTEXT needs a user and a password"),
        ("kafka://user:secret@host?security_protocol=SSL", "SSL takes no user"),
        ("kafka://user:what?@host", "percent-encoded"),
    ],
)
def test_another_shape_is_refused_with_what_is_wrong(setting: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        kafka_address(setting)

    assert says in str(refused.value)
    assert "SLUICE_LOG" in str(refused.value)


@given(
    password=st.from_regex(r"[a-z]{6}[?/@:]?[a-z]{12}", fullmatch=True),
    rest=st.sampled_from(["", "?x=1", "?compression=no", "/"]),
)
def test_nothing_that_is_shown_holds_the_password(password: str, rest: str) -> None:
    try:
        shown = repr(kafka_address(f"kafka://user:{password}@host{rest}"))
    except ConfigurationError as error:
        shown = str(error)

    assert password[-12:] not in shown
    assert password[:6] not in shown


def test_a_certificate_that_is_not_there_is_named() -> None:
    address = kafka_address("kafka://host?security_protocol=SSL&ssl_cafile=nowhere.pem")

    with pytest.raises(ConfigurationError, match=r"nowhere\.pem can't be used for TLS"):
        address.connection()
