// Generations: what the index that answers was built with.

import { get } from "./api.js";
import { count, failure, fill, h, standingCount } from "./dom.js";

export default async function generations(main, app) {
  const box = h("div", { "aria-busy": "true" });
  fill(main, h("section", {}, h("h1", {}, "Generations"), h("p", { class: "muted lead" }, "A generation is one build of the index: a model and a way to split documents into chunks. Each has vectors of its own, so another model never mixes with the one that answers."), box));
  try {
    const { generation, chunks, documents } = await get("/rag/stats");
    if (app.signal.aborted) return;
    const unit = generation.chunkUnit;
    const rows = [
      ["Model", generation.model],
      ["Vector", `${count(generation.dimension)} numbers`],
      ["Chunk", `at most ${count(generation.chunkSize)} ${unit}`],
      ["Overlap", generation.chunkOverlap ? `${count(generation.chunkOverlap)} ${unit}` : "none"],
      ["Chunker", `version ${generation.chunker}`],
      ["Holds", `${count(standingCount(documents, "searchable"))} documents, ${count(chunks)} chunks`],
    ];
    fill(
      box,
      h(
        "article",
        { class: "card generation" },
        h("div", { class: "row apart" }, h("h2", {}, h("code", {}, generation.id)), h("span", { class: "badge searchable" }, "serving")),
        h("dl", { class: "pairs" }, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      ),
    );
  } catch (error) {
    fill(box, failure(error, () => generations(main, app)));
  } finally {
    box.removeAttribute("aria-busy");
  }
}
