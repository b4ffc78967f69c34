"""The signature of a callback is the one that libraries of Standard Webhooks verify."""

import base64

from shared.state.callback_signature import callback_key, shown_key, signed_headers


def test_it_is_that_of_the_specifications_example() -> None:
    # From the reference libraries' README: github.com/standard-webhooks/standard-webhooks
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    headers = signed_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_each_tenant_has_a_key_of_its_own_that_does_not_tell_the_secret() -> None:
    keys = {callback_key(b"secret", tenant) for tenant in ("default", "other", "")}

    assert len(keys) == 3
    assert b"secret" not in keys
    assert callback_key(b"secret", "other") == callback_key(b"secret", "other")
    assert shown_key(b"\x00\x01") == "whsec_AAE="
