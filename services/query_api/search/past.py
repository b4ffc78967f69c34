"""Searches in generations that show a past moment. docs/adr/0013-generations.md"""

from collections.abc import Awaitable, Callable

from services.query_api.http.problems import Problem, invalid
from services.query_api.search.retrieval import Retriever
from shared.errors import Rejected, Unavailable
from shared.state.as_of import moment_of
from shared.state.generation_watch import GenerationWatch
from shared.state.generations import AsOf, Registered

NOT_BUILT = "NOT_BUILT"
Cost = Callable[[str], Awaitable[str]]  # describes what a moment's index costs; raises Rejected if it can't be built


class PastIndexes:
    """The retrievers of past moments that this process has loaded, by generation. `ServingApi` keeps them."""

    def __init__(self, known: GenerationWatch, cost: Cost) -> None:
        """Take the source of the registry, and a function that describes the cost of a build."""
        self.loaded: dict[str, Retriever] = {}
        self._known, self._cost = known, cost

    async def retriever(self, given: int | str, field: str, *, with_cost: bool) -> Retriever:
        """Return the retriever of the moment. `with_cost`: the error for a missing index says what building it costs.

        Raises:
            Problem: 400, the value isn't a moment; 409 NOT_BUILT, it has no finished index.
            Unavailable: this process hasn't loaded the index yet, which was finished just now.
        """
        try:
            moment = moment_of(given)
        except Rejected as error:
            raise invalid(field, error.sentence) from None
        found = self._find(moment)
        if found is None:
            raise Problem(409, await self._how(moment, with_cost=with_cost), code=NOT_BUILT)
        if not found.built:
            sentence = f"the index as of {moment.label} is being built: see `sluice reindex status`"
            raise Problem(409, sentence, code=NOT_BUILT)
        if found.id not in self.loaded:
            raise Unavailable(f"the index as of {moment.label} is being loaded", "past_loading")
        return self.loaded[found.id]

    def _find(self, moment: AsOf) -> Registered | None:
        registry = self._known.registry
        wanted = (moment.time, moment.offset)
        there = registry.generations if registry is not None else ()
        return next((each for each in there if each.as_of and (each.as_of.time, each.as_of.offset) == wanted), None)

    async def _how(self, moment: AsOf, *, with_cost: bool) -> str:
        command = f"sluice reindex start --as-of {moment.label}"
        missing = f"no index as of {moment.label} was built"
        if not with_cost:
            return f"{missing}: an operator builds it with `{command}`; `--dry-run` shows the cost"
        try:
            return f"{missing}: `{command}` builds it, and costs {await self._cost(moment.label)}"
        except Rejected as error:
            return f"{missing}, and none can be built: {error.sentence}"
