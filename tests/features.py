"""The features of a query and a passage by their definition: what `relevance` computes for many passages at once."""

import math
from itertools import pairwise

from services.query_api.search.candidates import Candidate, Features
from services.query_api.search.relevance import Question
from shared.text.words import stems, words


def features(asked: Question, candidate: Candidate) -> Features:
    """Return the features of one candidate."""
    own = words(candidate.text)
    headings = (stems(words(each), asked.forms) for each in candidate.headings)
    there = {*stems(own, asked.forms)}.union(*headings)
    together = asked.pairs.intersection(pairwise(stems(own, asked.forms)))
    return Features(
        cosine=candidate.cosine,
        coverage=math.fsum(asked.weights[each] for each in asked.weights.keys() & there) / (asked.total or 1.0),
        phrases=len(together) / len(asked.pairs) if together else 0.0,
    )
