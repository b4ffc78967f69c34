"""Orders passages by score, and computes the full score only for those that may be among the best. Pure."""

import heapq
from collections.abc import Sequence

from services.query_api.search.calibration import Scorer
from services.query_api.search.relevance import CandidatePassage, Comparer, Features, Question


def best(
    asked: Question, scorer: Scorer, passages: Sequence[CandidatePassage], count: int
) -> list[tuple[float, int, Features]]:
    """Return score, index and features of the `count` passages with the highest scores; ties keep their order.

    Adjacent and similar words only raise a score. So the passages are taken by the most that they could score, and
    these words are looked for only if that comes first and would change the score; the features are else without them.
    """
    if not passages or count <= 0:
        return []
    comparer, score = Comparer(asked), scorer.score
    compared = comparer.compared(passages)
    waiting = [
        (-score(passage.cosine, coverage, phrases, similar), index)
        for index, (passage, (coverage, phrases, similar)) in enumerate(zip(passages, compared, strict=True))
    ]
    heapq.heapify(waiting)
    whole: dict[int, Features] = {}
    found: list[tuple[float, int, Features]] = []
    while waiting and len(found) < count:
        negative, index = waiting[0]
        passage, of = passages[index], compared[index]
        known = whole.get(index)
        if known is None and score(passage.cosine, of.coverage, 0.0, 0.0) == -negative:
            known = Features(passage.cosine, of.coverage, 0.0, 0.0)
        if known is not None:
            heapq.heappop(waiting)
            found.append((-negative, index, known))
        else:
            whole[index] = known = comparer.whole(passage, of)
            heapq.heapreplace(waiting, (-score(*known), index))
    return found
