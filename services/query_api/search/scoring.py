"""Orders passages by score, and computes the full score only for those that may be among the best. Pure."""

import heapq
from collections.abc import Sequence

from services.query_api.search.calibration import Scorer
from services.query_api.search.relevance import Features, PassageComparison, Question


def best(
    asked: Question, scorer: Scorer, passages: Sequence[PassageComparison], count: int
) -> list[tuple[float, int, Features]]:
    """Return score, index and features of the `count` passages with the highest scores; ties keep their order.

    Similar words only raise a score. So a passage isn't searched for them if even their upper bound doesn't change its
    score, or leaves it below `count` others. Its features then lack similar words.
    """
    least = [scorer.score(each.features) for each in passages]
    threshold = min(heapq.nlargest(count, least), default=0.0)
    scored = []
    for index, passage in enumerate(passages):
        score, found = least[index], passage.features
        most = scorer.score(passage.most)
        if most < threshold:
            continue
        if most > score:
            found = passage.whole(asked)
            score = scorer.score(found)
        scored.append((score, index, found))
    return sorted(scored, key=lambda each: -each[0])[:count]
