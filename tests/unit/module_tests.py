"""Where each product module's test is, if it isn't the file of its name; `test_layout.py` holds this.

The test of `services/x/y.py` is `tests/unit/services/x/test_y.py`, that of a package `x` is `test_x.py` beside its
folder. An adapter's may be
its port's contract suite. A module without any branch needs none.
"""

import ast
from functools import cache
from pathlib import Path
from typing import Final

# Modules that branch but decide nothing of their own, each with the reason.
NO_DECISIONS: Final = {
    "services/operator_cli/__main__.py": "starts the command line",
    "services/operator_cli/demo.py": "the story of `make demo`; its transcript is in README.md",
    "services/query_api/process.py": "wiring",
    "services/standalone/store_process.py": "starts the store's process",
}

# Modules that are tested from outside, through the port, the API or the command that they serve.
_API, _CLI = "tests/integration/test_api.py", "tests/unit/services/operator_cli/test_main.py"
_OPENAI, _EXTRACT = "tests/integration/clients/test_openai.py", "tests/unit/services/ingest_worker/extract/"
_REINDEX = "tests/integration/test_reindex.py"
TESTED_BY: Final = {
    "shared/runtime/process.py": "tests/e2e/test_processes.py",
    "services/query_api/search/past.py": "tests/integration/test_as_of.py",
    "shared/answers/word_forms.py": "tests/unit/shared/answers/test_extractive.py",
    "shared/state/as_of.py": "tests/integration/test_as_of.py",
    "services/query_api/documents/changes.py": "tests/integration/test_changes.py",
    "services/operator_cli/optimize.py": "tests/integration/test_optimize.py",
    "services/operator_cli/moving/migrate.py": "tests/integration/test_migrate.py",
    "services/operator_cli/moving/move_log.py": "tests/integration/test_migrate_log.py",
    "services/operator_cli/moving/backup.py": "tests/integration/test_backup.py",
    "services/operator_cli/moving/restore.py": "tests/integration/test_backup.py",
    "services/query_api/http/audit.py": "tests/integration/test_audit.py",
    "services/query_api/ops/tenants.py": "tests/integration/test_erase.py",
    "services/query_api/ops/audit.py": "tests/integration/test_audit.py",
    "services/query_api/ops/feedback.py": "tests/integration/test_feedback.py",
    "services/query_api/ops/log_state.py": "tests/integration/test_ops.py",
    "services/embed_worker/app.py": "tests/integration/test_pipeline.py",
    "services/embed_worker/blob_collector.py": "tests/integration/test_blob_collection.py",
    "services/embed_worker/version_switch.py": "tests/property/test_apply_model.py",
    "services/ingest_worker/text_blocks.py": "tests/unit/services/ingest_worker/test_chunk.py",
    "services/ingest_worker/chunk/pack.py": "tests/property/test_chunk.py",
    "services/ingest_worker/forwarder.py": "tests/integration/test_tenant_topics.py",
    "services/ingest_worker/content.py": "tests/integration/test_pages.py",
    "services/ingest_worker/extract/clean.py": "tests/property/test_ready_chunks.py",
    "services/ingest_worker/extract/drawings.py": f"{_EXTRACT}formats/test_docx.py",
    "services/ingest_worker/extract/formats/xls.py": f"{_EXTRACT}formats/test_xlsx.py",
    "services/ingest_worker/extract/ocr.py": f"{_EXTRACT}formats/test_image.py",
    "services/ingest_worker/extract/html_markdown.py": f"{_EXTRACT}formats/test_html.py",
    "services/ingest_worker/extract/sheets.py": f"{_EXTRACT}formats/test_xlsx.py",
    "services/ingest_worker/fetch/hosts.py": "tests/unit/services/ingest_worker/fetch/test_fetcher.py",
    "services/ingest_worker/parsers.py": "tests/integration/test_parsers.py",
    "services/operator_cli/mcp.py": "tests/integration/clients/test_mcp.py",
    "services/operator_cli/client.py": "tests/unit/services/operator_cli/test_bulk_load.py",
    "services/operator_cli/use.py": _CLI,
    "services/operator_cli/serve.py": _CLI,
    "services/operator_cli/maintenance_commands.py": "tests/unit/services/operator_cli/verify/test_command.py",
    "services/operator_cli/options.py": _CLI,
    "services/operator_cli/terminal.py": _CLI,
    "services/operator_cli/verify/findings.py": "tests/unit/services/operator_cli/verify/test_compare.py",
    "services/operator_cli/verify/repair.py": "tests/integration/test_verify.py",
    "services/query_api/answer/answering.py": "tests/property/test_rag_chatbot.py",
    "services/query_api/answer/chat.py": _API,
    "services/query_api/answer/context.py": "tests/integration/test_rag_chatbot.py",
    "services/query_api/answer/query.py": _API,
    "services/query_api/app.py": _API,
    "services/query_api/clients/dify.py": "tests/integration/clients/test_dify.py",
    "services/query_api/clients/asking.py": _OPENAI,
    "services/query_api/clients/mcp.py": "tests/integration/clients/test_mcp.py",
    "services/query_api/clients/mcp_server.py": "tests/integration/clients/test_mcp.py",
    "services/query_api/clients/models.py": _OPENAI,
    "services/query_api/clients/open_webui.py": "tests/integration/clients/test_open_webui.py",
    "services/query_api/clients/openai.py": _OPENAI,
    "services/query_api/clients/vector_stores.py": "tests/unit/services/query_api/clients/test_conditions.py",
    "services/query_api/console/oidc.py": "tests/integration/test_oidc.py",
    "services/query_api/console/pages.py": "tests/integration/test_console.py",
    "services/query_api/documents/bulk_delete.py": "tests/integration/test_erase.py",
    "services/query_api/documents/knowledge_base.py": "tests/integration/test_same_at_every_door.py",
    "services/query_api/documents/original.py": "tests/integration/test_document_view.py",
    "services/query_api/documents/selection.py": _API,
    "services/query_api/http/linger.py": "tests/integration/test_doors.py",
    "services/query_api/http/monitoring.py": "tests/unit/services/query_api/http/test_auth.py",
    "services/query_api/ingest/batch.py": "tests/integration/test_doors.py",
    "services/query_api/ingest/batch_framing.py": "tests/property/test_framing.py",
    "services/query_api/ingest/document.py": "tests/integration/test_doors.py",
    "services/query_api/ingest/unchanged_check.py": "tests/integration/test_check.py",
    "services/query_api/ingest/upload.py": "tests/integration/test_doors.py",
    "services/query_api/ops/dead_letters.py": "tests/integration/test_dead_letters.py",
    "services/query_api/ops/erase.py": "tests/integration/test_erase.py",
    "services/query_api/search/relevance.py": "tests/property/test_relevance.py",
    "services/query_api/search/facets.py": "tests/integration/test_search_pages.py",
    "services/query_api/search/results.py": "tests/integration/test_search_pages.py",
    "services/query_api/search/search.py": "tests/integration/test_search_pages.py",
    "services/standalone/parser_adapter.py": "tests/integration/clients/test_open_webui.py",
    "services/standalone/serve.py": "tests/integration/test_pipeline.py",
    "shared/log/kafka/__init__.py": "tests/integration/test_kafka.py",
    "shared/log/sqlite/consumer.py": "tests/property/test_log_machine.py",
    "shared/log/sqlite/file.py": "tests/unit/shared/log/test_sqlite.py",
    "shared/log/sqlite/producer.py": "tests/property/test_log_machine.py",
    "shared/log/sqlite/upkeep.py": "tests/property/test_log_machine.py",
    "shared/model_server/ollama.py": "tests/unit/shared/embedder/test_ollama.py",
    "shared/model_server/openai.py": "tests/unit/shared/embedder/test_openai.py",
    "shared/runtime/key_file.py": "tests/unit/services/operator_cli/test_keys.py",
    "shared/runtime/listening.py": "tests/unit/deploy/test_compose.py",
    "shared/runtime/settings_report.py": "tests/unit/services/query_api/ops/test_keys.py",
    "shared/sandbox/__init__.py": "tests/integration/test_hostile_parser.py",
    "shared/sandbox/landlock.py": "tests/integration/test_hostile_parser.py",
    "services/query_api/serving_api.py": _REINDEX,
    "services/query_api/ops/generation_plan.py": _REINDEX,
    "services/query_api/ops/generations.py": _REINDEX,
    "shared/runtime/in_force.py": _REINDEX,
    "shared/state/generation_watch.py": _REINDEX,
    "shared/state/generations.py": "tests/property/test_generations.py",
}


def expected(module: Path) -> Path:
    """Return where the test of a product module should be; both from the repository's root."""
    place = module.parent if module.name == "__init__.py" else module
    return Path("tests/unit", place.with_name(f"test_{place.stem}.py"))


@cache
def syntax(code: str) -> ast.Module:
    """Return the code's tree, parsed once in a run."""
    return ast.parse(code)


def branches(code: str) -> bool:
    """Return whether the code has any branch: a condition, a case, a loop on one, or an error handler."""
    return any(
        isinstance(node, ast.If | ast.IfExp | ast.match_case | ast.While | ast.ExceptHandler)
        or (isinstance(node, ast.comprehension) and node.ifs)
        for node in ast.walk(syntax(code))
    )
