from services.query_api.http.routes import LANE, get, index_of, post


@get("/rag/documents/{document_id:str}", role="query", line="show a document")
async def shown(document_id: str) -> None: ...


@post("/rag/hidden", role="ingest", lane="bring")
async def hidden() -> None: ...


def test_a_route_without_a_line_is_not_on_the_index_page() -> None:
    assert index_of([shown, hidden]) == {"GET /rag/documents/{id}": "show a document"}
    assert hidden.opt[LANE] == "bring"
