"""The form that a question asks for: whoever asks how many is not answered without a figure."""

import re
from collections.abc import Sequence
from typing import Final

from shared.answers.sentences import is_german

Form = re.Pattern[str]

_AGE: Final = re.compile(
    r"\bage[ds]?\b\W{0,3}\d|[ -]old\b|\b(?:at least|over|under|is|are|was|turned) \d{1,3}(?![\w%]|[.,]\d)"
    r"|\b(?:born|built|founded|established|opened|completed|made|since|dates?|years?|months?|centur\w+)\b",
    re.IGNORECASE,
)
_FIGURE: Final = re.compile(
    r"(?<!\w)[$£€¥]?\d|\b(?:Rs|RM|CHF|EUR|USD|GBP|SEK|NOK|DKK|kr)\.?\d|\b(?:no|none|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|"
    r"forty|fifty|hundreds?|thousands?|millions?|billions?|dozens?|half|both|all|any|single|once|twice|several|some|many|few|"
    r"little|most|enough|couple|pair|free|unlimited|infinite|hourly|daily|weekly|monthly|yearly|since|until|till|"
    r"overnight|always|forever|indefinitely|permanently|as (?:long|far|fast)|whole|every|per|"
    r"(?:second|minute|hour|day|night|week|month|year|decade)s?|"
    r"an? (?:ton|tonne|pound|kilo\w*|gram\w*|mile|yard|foot|inch|met(?:er|re)))\b",
    re.IGNORECASE,
)
# A year is no share.
_SHARE: Final = re.compile(
    r"(?<![\w.,])(?!(?:19|20)\d\d(?![\w%]|[.,]\d))[~$£€¥]?\d|\b(?:no|none|half|thirds?|quarters?|fifths?|tenths?|all|"
    r"both|most|every|one|two|three|four|five|six|seven|eight|nine|ten|per ?cent|majority|minority)\b",
    re.IGNORECASE,
)
_TIME: Final = re.compile(
    r"\d|\b(?:after|before|during|since|until|till|when|while|once|soon|ago|later|yesterday|today|tomorrow|morning|noon|"
    r"afternoon|evening|night|midnight|spring|summer|autumn|fall|winter|easter|christmas|antiquity|"
    r"(?:minute|hour|day|week|month|year|decade|age|era)s?|centur\w+|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|january|february|march|april|may|june|july|august|september|october|"
    r"november|december|never|always|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b",
    re.IGNORECASE,
)
FORMS: Final = (
    (re.compile(r"\bhow old\b", re.IGNORECASE), _AGE),
    (
        re.compile(r"\bhow (?:many|much|long|high|tall|deep|wide|heavy|fast|often)\b", re.IGNORECASE),
        _FIGURE,
    ),
    (re.compile(r"\bwhat (?:percent(?:age)?|share|proportion)\b", re.IGNORECASE), _SHARE),
    (re.compile(r"^\W*+when (?:was|were|did)\b", re.IGNORECASE), _TIME),
    (
        # The noun must be the last of its phrase: not "what is the price list".
        re.compile(
            r"\bwhat (?:is|are|was|were) the (?:[\w-]+ ){0,3}?(?:number|amount|interval|timeout|duration|price|cost|"
            r"fee|weight|height|width|length|depth|elevation|altitude|diameter|distance|speed|temperature|population|"
            r"salary|wage|budget|revenue|size|capacity|percentage)"
            r"(?: (?:of|for|in|at|on|to|during|between|per|from|by|when|if)\b|\W*$)",
            re.IGNORECASE,
        ),
        _FIGURE,
    ),
)
# A number of two digits, or a name with one.
_NUMBERED: Final = re.compile(r"(?<!\w)(?=[^\W\d]*+\d)(?=\w\w|\w[.,-]++\w)\w++(?:[.,-]++\w++)*+")
_MOST_NUMBERED: Final = 20  # of a question, each looked for in the whole text


def asked_forms(question: str, forms: Sequence[tuple[Form, Form]] = FORMS) -> tuple[Form, ...]:
    """Return the patterns of the forms that the question asks for."""
    return tuple(form for asks, form in forms if asks.search(question))


def has_asked_form(question: str, text: str) -> bool:
    """Return whether the text has the form that the question asks for: a figure, a time or an age.

    True if the question asks for none, and for texts that are not in English. The question's own numbers don't count.
    """
    asked = asked_forms(question)
    if not asked or is_german(text) or any(letter.isalpha() for letter in text if not letter.isascii()):
        return True
    for number in list(dict.fromkeys(_NUMBERED.findall(question)))[:_MOST_NUMBERED]:
        text = re.sub(rf"(?<!\w){re.escape(number)}(?!\w)", " ", text)
    return all(form.search(text) for form in asked)
