"""CocoIndex: files, chunks and vectors as declared states, its own state in LMDB, and LanceDB as the target."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import cocoindex as coco
import lancedb as database
import numpy as np
from cocoindex.connectors import lancedb, localfs
from cocoindex.ops.text import RecursiveSplitter
from cocoindex.resources.chunk import Chunk
from cocoindex.resources.file import FileLike
from cocoindex.resources.id import IdGenerator
from cocoindex.resources.schema import VectorSchema, VectorSchemaProvider
from numpy.typing import NDArray

from tests.bench.peers.minilm import DIMENSION, MINILM


class MiniLM(VectorSchemaProvider):
    @coco.fn.as_async(batching=True, runner=coco.GPU, max_batch_size=64)
    def _embed(self, texts: list[str]) -> list[NDArray[np.float32]]:
        return [np.array(vector, dtype=np.float32) for vector in MINILM.embed(texts)]

    @coco.fn(memo=True, version=1, logic_tracking="self")
    async def embed(self, text: str) -> NDArray[np.float32]:
        return await self._embed(text)

    async def __coco_vector_schema__(self) -> VectorSchema:
        return VectorSchema(dtype=np.dtype(np.float32), size=DIMENSION)

    def __coco_memo_key__(self) -> object:
        return "all-MiniLM-L6-v2"


DATABASE = coco.ContextKey[lancedb.LanceAsyncConnection]("database")
EMBEDDER = MiniLM()
SPLITTER = RecursiveSplitter()


@dataclass
class Row:
    id: int
    path: str
    text: str
    embedding: Annotated[NDArray[np.float32], EMBEDDER]


@coco.fn
async def process_chunk(chunk: Chunk, path: str, ids: IdGenerator, table: lancedb.TableTarget[Row]) -> None:
    row = Row(await ids.next_id(chunk.text), path, chunk.text, await EMBEDDER.embed(chunk.text))
    table.declare_row(row=row)


@coco.fn(memo=True)
async def process_file(file: FileLike, table: lancedb.TableTarget[Row]) -> None:
    chunks = SPLITTER.split(await file.read_text(), chunk_size=600, chunk_overlap=0, language="markdown")
    await coco.map(process_chunk, chunks, str(file.file_path.path), IdGenerator(), table)


@coco.fn
async def main(folder: Path) -> None:
    schema = await lancedb.TableSchema.from_class(Row, primary_key=["id"])
    table = await lancedb.mount_table_target(DATABASE, table_name="docs", table_schema=schema)
    await coco.mount_each(process_file, localfs.walk_dir(folder).items(), table)


def load(folder: Path, data: Path) -> None:
    data.mkdir(exist_ok=True)

    @coco.lifespan
    async def lifespan(builder: coco.EnvironmentBuilder) -> AsyncIterator[None]:
        builder.settings.db_path = data / "state"
        builder.provide(DATABASE, await lancedb.connect_async(str(data / "lancedb")))
        yield

    coco.App("docs", main, folder=folder).update_blocking()


def searching(data: Path) -> Callable[[str], list[str]]:
    table = database.connect(data / "lancedb").open_table("docs")
    return lambda query: [hit["text"] for hit in table.search(MINILM.query(query)).limit(5).to_list()]


def stored(data: Path) -> list[str]:
    return database.connect(data / "lancedb").open_table("docs").to_arrow()["text"].to_pylist()
