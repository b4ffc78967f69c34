"""Shows numbers as the format of their cell says: percentages, currencies, units, leading zeros."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from services.ingest_worker.extract.rows import number

# Of the formats that have a number and no code: https://learn.microsoft.com/dotnet/api/documentformat.openxml.spreadsheet.numberingformat
BUILT_IN: Final = {5: "$0", 6: "$0", 7: "$0.00", 8: "$0.00", 9: "0%", 10: "0.00%", 42: "$0", 44: "$0.00"}
_LONGEST: Final = 255  # characters of a code, as Excel allows
_TOKEN: Final = re.compile(
    r"\"(?P<quoted>[^\"]{0,255}+)\"|\\(?P<escaped>.)|\[\$(?P<symbol>[^\]-]{0,255}+)[^\]]{0,255}+\]|\[[^\]]{0,255}+\]|[_*].|(?P<end>;)"
    r"|(?P<digits>[0#?](?:[0#?.]|,(?=[0#?.]))*+)(?P<scale>,*+)|(?P<percent>%)|(?P<sign>[-+() $€£¥₹])|(?P<other>.)",
    re.DOTALL,
)
_SECTION: Final = re.compile(r"(?:\"[^\"]*+\"|[^\";])++")
_WORDS: Final = re.compile(r"(?<!\s)\s*+(?:\[[A-Z][a-z]++\])?\"(?=[^\"]*?[^\W\d_])([^\"]*+)\"\s*+")


class NumberFormat(NamedTuple):
    """How a cell shows its number."""

    before: str
    after: str
    decimals: int  # at least
    zeros: int  # digits before the point, at least
    power: int  # of ten, by which the number is multiplied before it is shown
    mask: Sequence[str] = ()  # digits and signs between them, as in 000-0000; empty for a plain number
    words: Sequence[str] = ()  # for numbers above, below and equal to zero, which are shown by words alone

    def shown(self, value: float) -> str:
        """Return the number with all of its digits."""
        if self.words:
            return self.words[(value <= 0) + (value == 0)]
        digits = number(abs(value) * 10.0**self.power if self.power else abs(value))
        if "e" in digits:
            return number(value)
        whole, _, fraction = digits.partition(".")
        if not self.mask:
            if self.decimals or fraction:
                fraction = f".{fraction.ljust(self.decimals, '0')}"
            return f"{'-' if value < 0 else ''}{self.before}{whole.zfill(self.zeros)}{fraction}{self.after}".strip()
        places = sum(len(part) for part in self.mask if part[0] == "0")
        if fraction or value < 0 or len(whole) > places:
            return number(value)
        left = iter(whole.zfill(places))
        digits = "".join("".join(next(left) for _ in part) if part[0] == "0" else part for part in self.mask)
        return f"{self.before}{digits}{self.after}".strip()


def number_format(code: str) -> NumberFormat | None:
    """Return the format of positive numbers; None if they are shown as they are stored, or are dates."""
    sections = _SECTION.findall(code[:_LONGEST])
    filled = ";".join(sections) == code  # an empty one shows nothing
    if filled and 2 <= len(sections) <= 3 and all(_WORDS.fullmatch(each) for each in sections):
        says = [_WORDS.sub(r"\1", each) for each in sections]
        return NumberFormat("", "", 0, 0, 0, words=(says[0], says[1], says[2 * (len(says) > 2)]))
    parsed = _parsed(code[:_LONGEST])
    if parsed is None or not parsed[0]:
        return None
    groups, texts, power = parsed
    before, after = texts[0].lstrip(" (+-"), texts[-1].rstrip(" )+-")
    if len(groups) > 1:
        if any(set(group) != {"0"} for group in groups) or not all(texts[1:-1]):
            return None
        mask = [part for group, text in zip(groups, texts[1:], strict=True) for part in (group, text)]
        return NumberFormat(texts[0].lstrip(), after, 0, 0, power, mask[:-1])
    whole, _, fraction = groups[0].replace(",", "").partition(".")
    zeros = whole.count("0")
    if not (before or after or power or zeros > 1):
        return None
    return NumberFormat(before, after, fraction.count("0"), zeros, power)


def _parsed(code: str) -> tuple[list[str], list[str], int] | None:
    """Return the groups of digits, the texts around them, and the power of ten; None if it isn't a number's format."""
    groups: list[str] = []
    texts = [""]
    power = 0
    for token in _TOKEN.finditer(code):
        kind = token.lastgroup
        if kind == "end":
            break
        if kind == "other":  # a date, a fraction, an exponent, text, a program's own
            return None
        if token["digits"]:
            groups.append(token["digits"])
            texts.append("")
            power -= 3 * len(token["scale"])
        elif kind == "percent":
            power += 2
            texts[-1] += "%"
        elif kind is not None:
            texts[-1] += token[kind]
    return groups, texts, power
