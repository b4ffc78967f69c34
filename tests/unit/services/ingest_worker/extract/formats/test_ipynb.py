import json

import pytest

from services.ingest_worker.extract import Extraction, Hints, extract


def _read(book: object) -> Extraction:
    return extract(json.dumps(book).encode(), Hints(filename="tides.ipynb"))


def test_cells_come_in_order_with_what_their_code_printed() -> None:
    outputs = [
        {"output_type": "stream", "text": ["4.2\n", "5.1\n"]},
        {"output_type": "execute_result", "data": {"image/png": "iVBOR", "text/plain": ["high"]}},
        {"output_type": "display_data", "data": {"image/png": "iVBOR", "text/plain": "<Figure size 6x4>"}},
        {"output_type": "display_data", "data": {"text/markdown": "**low**", "text/plain": "low"}},
        {"output_type": "error", "ename": "KeyError", "evalue": "'Hull'", "traceback": ["\x1b[31m…"]},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Tides\n", "Of the *harbour*."]},
        {"cell_type": "code", "source": "for port in ports:\n    print(port)", "outputs": outputs},
        {"cell_type": "code", "source": []},
        {"cell_type": "raw", "source": "The end."},
    ]

    read = _read({"metadata": {"kernelspec": {"language": "python"}}, "cells": cells, "nbformat": 4})

    assert read.text == (
        "# Tides\nOf the *harbour*.\n\n```python\nfor port in ports:\n    print(port)\n```\n\n```\n4.2\n5.1\n```"
        "\n\n```\nhigh\n```\n\n**low**\n\n```\nKeyError: 'Hull'\n```\n\nThe end."
    )
    assert (read.title, read.document_type) == ("Tides", "ipynb")


def test_notebooks_of_old_are_read() -> None:
    cells = [
        {"cell_type": "heading", "level": 1, "source": ["Tides"]},
        {"cell_type": "heading", "level": 2, "source": ["Of the ebb"]},
        {"cell_type": "code", "input": ["x = 1"], "outputs": [{"output_type": "pyout", "text": ["1"]}]},
    ]

    assert (
        _read({"nbformat": 3, "worksheets": [{"cells": cells}]}).text
        == "# Tides\n\n## Of the ebb\n\n```\nx = 1\n```\n\n```\n1\n```"
    )


@pytest.mark.parametrize("book", [[], {"cells": 5}, {"cells": [7, None, {"source": [1]}]}])
def test_what_is_no_notebook_comes_as_it_is_written(book: object) -> None:
    assert _read(book).text == json.dumps(book)
    assert extract(b'{"cells": [', Hints(filename="a.ipynb")).text == '{"cells": ['


def test_a_table_that_code_returned_has_its_header() -> None:
    html = "<style>td { }</style><table><tr><th>Port</th><th>Depth</th></tr><tr><td>Skua</td><td>4.2</td></tr></table>"
    data = {"text/html": [html], "text/plain": ["  Port Depth"]}
    book = {"cells": [{"cell_type": "code", "source": "depths", "outputs": [{"data": data}]}]}

    read = extract(json.dumps(book).encode(), Hints(filename="a.ipynb"))

    assert read.text == "```\ndepths\n```\n\n| Port | Depth |\n| --- | --- |\n| Skua | 4.2 |"


def test_a_result_whose_table_only_arranges_is_read_as_its_plain_text() -> None:
    data = {"text/html": "<table><tr><td>Figure(640x480)</td></tr></table>", "text/plain": "a figure"}
    book = {"cells": [{"cell_type": "code", "source": "draw", "outputs": [{"data": data}]}]}

    assert _read(book).text == "```\ndraw\n```\n\n```\na figure\n```"


def test_html_in_a_text_cell_is_read_as_in_markdown() -> None:
    source = (
        "<a id='t'></a>\n<h1 align='center'>Tides</h1>\n<font color='red'>Care</font> where 1 < 2."
        "\n\n```\n<b>code</b>\n```"
    )

    read = _read({"cells": [{"cell_type": "markdown", "source": source}]})

    assert read.text == "# Tides\n\nCare where 1 < 2.\n\n```\n<b>code</b>\n```"
    assert read.title == "Tides"
