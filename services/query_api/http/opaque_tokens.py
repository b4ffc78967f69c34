"""Signs and encrypts values that callers hand back later, such as cursors: they can't read, make or change them."""

import secrets
from typing import TypeVar

import msgspec

from services.query_api.http.problems import Problem, invalid
from shared.contracts import LogPosition
from shared.state.callbacks import callback_key
from shared.state.signing_secret import content_of, signed_token, submission_token, submitted_at

S = TypeVar("S", bound=msgspec.Struct)


class OffsetCursor(msgspec.Struct, frozen=True, array_like=True):
    """A cursor that is an offset of a topic of all tenants; no two are equal, or they would tell when others write."""

    offset: int
    salt: str = msgspec.field(default_factory=lambda: secrets.token_urlsafe(8))


class Signer:
    """Makes and opens tokens with the installation's secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, value: msgspec.Struct, *, tenant: str = "") -> str:
        """Return the value as a token that `opened` accepts for the same tenant."""
        return signed_token(self._secret, type(value).__name__, tenant, msgspec.json.encode(value))

    def opened(self, token: str, kind: type[S], *, field: str = "cursor", tenant: str = "") -> S:
        """Return the value of a token.

        Raises:
            Problem: 400, `sign` didn't make it for this kind and tenant; the sentence names `field`.
        """
        content = content_of(token, self._secret, kind.__name__, tenant)
        if content is None:
            raise _foreign(field)
        try:
            return msgspec.json.decode(content, type=kind)
        except ValueError:  # JSON of another release while both run
            raise _foreign(field) from None

    def submission(self, tenant: str, place: LogPosition) -> str:
        """Return the token by which callers know the submission at a position; equal at every door."""
        return submission_token(self._secret, tenant, place)

    def submitted_at(self, token: str, *, field: str, tenant: str) -> LogPosition:
        """Return the position of the tenant's submission with this token. Raises as `opened`."""
        place = submitted_at(token, self._secret, tenant)
        if place is None:
            raise _foreign(field)
        return place

    def callback_key(self, tenant: str) -> bytes:
        """Return the key that signs the tenant's callbacks."""
        return callback_key(self._secret, tenant)


def _foreign(field: str) -> Problem:
    return invalid(field, "is not one that this API issued")
