"""The form that a question asks for: whoever asks how many is not answered without a figure."""

import re
from typing import Final

from shared.answers.sentences import is_german

_AGE: Final = re.compile(
    r"\bage[ds]?\b\W{0,3}\d|[ -]old\b"
    r"|\b(?:born|built|founded|established|made|since|dates?|years?|months?|centur\w+)\b",
    re.IGNORECASE,
)
_FIGURE: Final = re.compile(
    r"(?<!\w)[$£€¥]?\d|\b(?:no|none|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|"
    r"forty|fifty|hundreds?|thousands?|millions?|billions?|dozens?|half|both|all|any|single|once|twice|several|some|many|few|"
    r"little|most|enough|couple|pair|free|unlimited|infinite|hourly|daily|weekly|monthly|yearly)\b",
    re.IGNORECASE,
)
_FORMS: Final = (
    (re.compile(r"\bhow old\b", re.IGNORECASE), _AGE),
    (re.compile(r"\bhow (?:many|much)\b", re.IGNORECASE), _FIGURE),
    (
        # The noun must be the last of its phrase: not "what is the price list".
        re.compile(
            r"\bwhat (?:is|are|was|were) the (?:[\w-]+ ){0,3}?(?:number|amount|interval|timeout|duration|price|cost|"
            r"fee|weight|height|width|length|depth|elevation|altitude|diameter|distance|speed|temperature|population)"
            r"(?: (?:of|for|in|at|on|to|during|between|per|from|by|when|if)\b|\W*$)",
            re.IGNORECASE,
        ),
        _FIGURE,
    ),
)
# A number of two digits, or a name with one.
_NUMBERED: Final = re.compile(r"(?<!\w)(?=[^\W\d]*+\d)(?=\w\w|\w[.,-]++\w)\w++(?:[.,-]++\w++)*+")
_MOST_NUMBERED: Final = 20  # of a question, each looked for in the whole text
_FENCED: Final = re.compile(r"```.*?```", re.DOTALL)


def has_asked_form(question: str, text: str) -> bool:
    """Return whether the text has the form that the question asks for, a figure or an age.

    True if the question asks for neither, and for texts that are not in English. The question's own numbers don't
    count, nor do figures in code, which is an example.
    """
    asked = [form for asks, form in _FORMS if asks.search(question)]
    if not asked or is_german(text) or any(letter.isalpha() for letter in text if not letter.isascii()):
        return True
    prose = _FENCED.sub(" ", text)
    for number in list(dict.fromkeys(_NUMBERED.findall(question)))[:_MOST_NUMBERED]:
        prose = re.sub(rf"(?<!\w){re.escape(number)}(?!\w)", " ", prose)
    return all(form.search(prose) for form in asked)
