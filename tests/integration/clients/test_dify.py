"""Dify's external knowledge, asked as its documentation says that it asks."""

from typing import Any

import pytest

from tests.integration.api import problem
from tests.integration.clients.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")


def an_order(**more: Any) -> dict[str, Any]:
    setting = {"top_k": 2, "score_threshold": 0.0}
    return {"knowledge_id": "documents", "query": "When is the lantern lit?", "retrieval_setting": setting, **more}


async def test_passages_come_as_records_without_a_null(quoting: Site) -> None:
    told = (await quoting.http.post("/retrieval", json=an_order())).json()

    first, *_ = told["records"]
    assert first.keys() == {"content", "score", "title", "metadata"}
    assert (first["title"], first["metadata"]["documentId"]) == ("Lantern", quoting.lantern)
    assert "six in the evening" in first["content"]
    assert None not in first["metadata"].values()


async def test_a_knowledge_id_is_a_source_and_conditions_narrow_it(quoting: Site) -> None:
    async def found(**more: Any) -> set[str]:
        reply = await quoting.http.post("/retrieval", json=an_order(**more))
        assert reply.status_code == 200, reply.text
        return {each["metadata"]["documentId"] for each in reply.json()["records"]}

    birds = {"conditions": [{"name": ["tags"], "comparison_operator": "is", "value": "birds"}]}

    assert await found(knowledge_id="s") == {quoting.lantern, quoting.herons}
    assert await found(knowledge_id="elsewhere") == set()
    assert await found(metadata_condition={"logical_operator": "and", **birds}) == {quoting.herons}
    assert await found(metadata_condition=None) == {quoting.lantern, quoting.herons}
    assert await found(retrieval_setting={"top_k": 2, "score_threshold": 1.01}) == set()


async def test_what_cannot_be_compared_is_named(quoting: Site) -> None:
    near = {"conditions": [{"name": ["tags"], "comparison_operator": "contains", "value": "b"}]}
    either = {"logical_operator": "or", "conditions": [{"name": "a", "comparison_operator": "is", "value": 1}] * 2}

    said = problem(await quoting.http.post("/retrieval", json=an_order(metadata_condition=near)), 422)
    problem(await quoting.http.post("/retrieval", json=an_order(metadata_condition=either)), 422, "UNKNOWN_OPERATOR")
    problem(await quoting.http.post("/retrieval", json=an_order(), headers={"Authorization": "Bearer x"}), 401)

    assert "'contains' is not supported" in said
