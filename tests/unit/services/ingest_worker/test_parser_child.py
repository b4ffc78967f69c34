"""What a parser process holds in memory before its first file: no part of the service around it."""

import subprocess
import sys


def test_a_parser_imports_nothing_of_the_network_or_the_service() -> None:
    code = (
        "import sys\nimport services.ingest_worker.parser_child\n"
        "heavy = 'aiokafka click faststream http httpx litestar numpy pydantic qdrant_client ssl structlog'.split()\n"
        "print(sorted(set(heavy) & set(sys.modules)))\n"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert ran.stdout == "[]\n"
