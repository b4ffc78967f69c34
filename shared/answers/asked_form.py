"""The form that a question asks for: whoever asks how many is not answered without a figure."""

import re
from typing import Final

from shared.answers.sentences import is_german

_AGE: Final = re.compile(
    r"\bage[ds]?\b\W{0,3}\d|[ -]old\b|\b(?:at least|over|under|is|are|was|turned) \d{1,3}(?![\w%]|[.,]\d)"
    r"|\b(?:born|built|founded|established|opened|completed|made|since|dates?|years?|months?|centur\w+)\b",
    re.IGNORECASE,
)
_FIGURE: Final = re.compile(
    r"(?<!\w)[$£€¥]?\d|\b(?:Rs|RM|CHF|EUR|USD|GBP|SEK|NOK|DKK|kr)\.?\d|\b(?:no|none|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|"
    r"forty|fifty|hundreds?|thousands?|millions?|billions?|dozens?|half|both|all|any|single|once|twice|several|some|many|few|"
    r"little|most|enough|couple|pair|free|unlimited|infinite|hourly|daily|weekly|monthly|yearly)\b",
    re.IGNORECASE,
)
_MEASURE: Final = re.compile(
    rf"{_FIGURE.pattern}|\b(?:since|until|till|overnight|always|forever|indefinitely|permanently|as (?:long|far|fast)|"
    r"whole|every|per|(?:second|minute|hour|day|night|week|month|year|decade)s?|an? (?:ton|tonne|pound|kilo\w*|gram\w*|"
    r"mile|yard|foot|inch|met(?:er|re)))\b",
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
_FORMS: Final = (
    (re.compile(r"\bhow old\b", re.IGNORECASE), _AGE),
    (re.compile(r"\b(?:how (?:many|much)|what (?:percent(?:age)?|share|proportion))\b", re.IGNORECASE), _FIGURE),
    (re.compile(r"\bhow (?:long|high|tall|deep|wide|heavy|fast)\b", re.IGNORECASE), _MEASURE),
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
_SECTION: Final = re.compile(r"\b\d+\.\d+\.\d+(?:\.\d+)+")  # the number of a heading
_FENCED: Final = re.compile(r"```.*?```", re.DOTALL)
# Not a number before a unit, nor after a bare `of`: "in 2000 boxes", "a tank of 1800".
_YEAR: Final = re.compile(
    r"\b(?:in|by|since|until|before|after|FY|(?:as|end|start|beginning|middle|quarter|year|spring|summer|autumn) of)"
    r" ?+(?:FY ?+)?(?:1[5-9]|20)\d\d(?!\w|[.,]\d|\W?(?:[%°$£€¥]|(?:[mnµ]?s|sec(?:ond)?s?|min(?:ute)?s?|h|hours?|days?|"
    r"weeks?|months?|years?|[kcm]?m|(?:kilo|centi|milli)?met(?:re|er)s?|miles?|feet|ft|inches|lit(?:re|er)s?|l|gallons?|"
    r"[km]?g|(?:kilo)?grams?|t|tons?|tonnes?|euros?|eur|usd|gbp|dollars?|pounds?|crowns?|cents?|percent|per|degrees?|"
    r"[kmg]?hz|[km]?wh?|watts?|volts?|rpm|bytes?|[kmgt]i?b|people|persons|times|units|items|pieces|parts|steps|boxes|"
    r"bags|copies|rows|entries|lines|words|tokens|characters|pages|requests|calls|attempts|messages)\b))",
    re.IGNORECASE,
)


def has_asked_form(question: str, text: str) -> bool:
    """Return whether the text has the form that the question asks for: a figure, a time or an age.

    True if the question asks for none, and for texts that are not in English. The question's own numbers don't count,
    nor do figures in code, which is an example, nor years, which are no amounts.
    """
    asked = [form for asks, form in _FORMS if asks.search(question)]
    if not asked or is_german(text) or any(letter.isalpha() for letter in text if not letter.isascii()):
        return True
    prose = _FENCED.sub(" ", text)
    for number in list(dict.fromkeys(_NUMBERED.findall(question)))[:_MOST_NUMBERED]:
        prose = re.sub(rf"(?<!\w){re.escape(number)}(?!\w)", " ", prose)
    prose = _SECTION.sub(" ", prose)
    without_years = _YEAR.sub(lambda year: year[0].split()[0], prose)  # "until" and "since" tell how long
    return all(form.search(prose if form in (_AGE, _TIME) else without_years) for form in asked)
