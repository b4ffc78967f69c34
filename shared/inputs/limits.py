"""The longest names, descriptions and chunks that a document may have, by whatever door it comes. Pure."""

from typing import Final

from shared.contracts import DocumentSubmitted
from shared.errors import Rejected

LONGEST_SOURCE: Final = 200  # characters
LONGEST_PATH: Final = 2000
LONGEST_URL: Final = 2000
LONGEST_TITLE: Final = 1000
LONGEST_DESCRIPTION: Final = 10_000
LONGEST_HASH: Final = 200
LONGEST_MEDIA_TYPE: Final = 500  # with its parameters
MOST_TAGS: Final = 64
LONGEST_TAG: Final = 200


class InvalidField(Rejected):
    """What a document's sender says in `field`, a path, can't be taken; `what` says why."""

    def __init__(self, field: str, what: str, code: str = "invalid") -> None:
        super().__init__(f"{field} {what}", code)
        self.field = field
        self.what = what


def check_names(submitted: DocumentSubmitted) -> None:
    """Raise InvalidField with code `too_long` if source or path is: no entry of the document is kept under it."""
    _check("source", submitted.source, LONGEST_SOURCE)
    _check("path", submitted.path, LONGEST_PATH)


def check_described(submitted: DocumentSubmitted) -> None:
    """Raise InvalidField with code `too_long` if a field beside the names is, or if there are too many tags."""
    _check("title", submitted.title or "", LONGEST_TITLE)
    _check("description", submitted.description or "", LONGEST_DESCRIPTION)
    _check("filename", submitted.filename or "", LONGEST_PATH)
    _check("hash", submitted.hash or "", LONGEST_HASH)
    _check("mediaType", submitted.media_type or "", LONGEST_MEDIA_TYPE)
    if len(submitted.tags) > MOST_TAGS:
        raise InvalidField("tags", f"has {len(submitted.tags)} tags, but at most {MOST_TAGS} are allowed", "too_long")
    for tag in submitted.tags:
        _check("tags", tag, LONGEST_TAG)


def _check(field: str, value: str, longest: int) -> None:
    if len(value) > longest:
        raise InvalidField(field, f"has {len(value)} characters, but at most {longest} are allowed", "too_long")


SMALLEST: Final = 100  # characters
LARGEST: Final = 2000
TOKEN_CHARACTERS: Final = 4  # characters per token in English, to convert a size in tokens


def checked_sizes(size: int, overlap: int) -> None:
    """Raise ValueError unless 100 <= size <= 2000 and 0 <= overlap <= size / 2 (characters)."""
    if not SMALLEST <= size <= LARGEST:
        raise ValueError(f"chunk size {size} must be in [{SMALLEST}, {LARGEST}] characters")
    if not 0 <= overlap <= size // 2:
        raise ValueError(f"chunk overlap {overlap} must be in [0, {size // 2}] characters, half of the size {size}")
