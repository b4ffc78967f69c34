"""The example at the end of each command's help."""

from typing import Final

_EXAMPLES: Final = {
    "serve": "sluice serve --port 3000 --data ./data",
    "ingest_worker": "SLUICE_LOG=kafka://broker:9092 sluice ingest-worker",
    "embed_worker": "SLUICE_LOG=kafka://broker:9092 sluice embed-worker",
    "query_api": "SLUICE_LOG=kafka://broker:9092 sluice query-api --port 3000",
    "store": "sluice store --side-port 9090",
    "mcp": "sluice --url http://127.0.0.1:3000 mcp",
    "init": "sluice init --dry-run",
    "demo": "sluice demo",
    "ingest": "sluice ingest ./handbook --source handbook --tags 2026",
    "inspect": "sluice inspect report.pdf --json",
    "reread": "sluice reread --source handbook",
    "search": "sluice search 'tickets for the boat' --top-k 3",
    "ask": "sluice ask 'When is the tower open?' --source handbook",
    "erase": "sluice erase --source handbook --dry-run",
    "audit": "sluice audit --since 2026-11-20T18:00Z --action rag_document_delete",
    "verify": "sluice verify --repair --dry-run",
    "doctor": "sluice doctor",
    "version": "sluice version",
    "stats": "sluice stats --json",
    "lag": "sluice lag --json",
    "replay": "sluice replay --topic documents.submitted --from beginning --source handbook --dry-run",
    "backup": "sluice backup /backups/2026-11-22.tar",
    "restore": "sluice restore /backups/2026-11-22.tar --data ./data",
    "optimize": "sluice optimize --dry-run",
    "migrate": "sluice migrate --to qdrant+http://qdrant:6333 --dry-run",
    "config_show": "sluice config show --changed",
    "groups_list": "sluice groups list",
    "groups_describe": "sluice groups describe --group ingest",
    "groups_reset": "sluice groups reset --group ingest --to-earliest --dry-run",
    "tenants_ls": "sluice tenants ls",
    "tenants_show": "sluice tenants show acme",
    "tenants_rm": "sluice tenants rm acme --dry-run",
    "open": "sluice open handbook/prices.md",
    "eval": "sluice eval questions.jsonl",
    "documents_ls": "sluice documents ls --status failed",
    "documents_show": "sluice documents show handbook/prices.md --text",
    "documents_rm": "sluice documents rm --source handbook --dry-run",
    "dlq_ls": "sluice dlq ls --stage embed",
    "dlq_show": "sluice dlq show ID --record",
    "dlq_redrive": "sluice dlq redrive --code timeout",
    "dlq_drop": "sluice dlq drop --all --dry-run",
    "reindex_start": "sluice reindex start --chunk-size 400 --dry-run",
    "reindex_status": "sluice reindex status",
    "reindex_compare": "sluice reindex compare --questions questions.jsonl --max-drop 0.02",
    "reindex_switch": "sluice reindex switch",
    "reindex_rollback": "sluice reindex rollback",
    "reindex_cancel": "sluice reindex cancel",
    "reindex_gc": "sluice reindex gc",
}


def example(command: str) -> str:
    """Return the line with the command's example."""
    return f"Example: {_EXAMPLES[command]}"
