"""`sluice optimize` gives back what edits and deletions have left, says how much, and changes no answer."""

from pathlib import Path

from services.operator_cli.optimize import OptimizedPart, optimize, optimized_lines
from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from shared.contracts import DocumentSubmitted
from shared.ids import document_id
from tests.e2e.text import paragraphs
from tests.integration.pipeline import Pipeline, Quiet, running
from tests.selection import CI_ONLY

A = document_id("default", "s", "a.md")
EDITS = 12


async def edited(pipeline: Pipeline) -> None:
    for number in range(EDITS):
        text = "\n\n".join(paragraphs(number, 6))
        await pipeline.send(DocumentSubmitted(source="s", path="a.md", text=text))


@CI_ONLY
async def test_what_edits_left_is_given_back_and_the_answer_stays(tmp_path: Path) -> None:
    async with running(tmp_path, partitions=2) as pipeline:
        await edited(pipeline)
        texts = await pipeline.texts(A)

        done = await optimize(pipeline.settings, Quiet())

        assert [part.part for part in done.parts] == ["log", "store", "blobs"]
        log, store, blobs = done.parts
        assert "dead points" in store.note
        assert store.freed > 0
        assert log.freed > 0
        assert done.freed == log.freed + store.freed + blobs.freed
        rest = await optimize(pipeline.settings, Quiet())
        assert rest.parts[1].note == "no dead points"
        async with opened(pipeline.settings) as parts:
            outcome = await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=0, patience_s=30)
        assert (outcome.report.verdict, await pipeline.texts(A)) == ("right", texts)


@CI_ONLY
async def test_a_folder_that_nobody_serves_is_optimized_as_well(tmp_path: Path) -> None:
    async with running(tmp_path, partitions=2) as pipeline:
        await edited(pipeline)

    done = await optimize(pipeline.settings, Quiet())

    assert done.parts[1].freed > 0
    assert list(optimized_lines(done))[-1].startswith("Freed ")
    part = OptimizedPart(part="log", note="the Kafka cluster compacts and deletes by itself")
    assert (part.freed, part.before) == (0, None)
