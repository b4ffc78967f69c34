// One document: its text with the chunks drawn over it, how it came here, and what can be done with it.

import { get, Problem, request, watch } from "./api.js";
import { badge, bytes, count, empty, failure, fill, h, icon, noted, plural, span, standing, when } from "./dom.js";
import { editor } from "./edit.js";
import { isMarkdown } from "./passage.js";
import { prose } from "./prose.js";
import { leaving, remove } from "./removal.js";
import { Uploads } from "./upload.js";

const PAGE = 200; // chunks that are read and drawn at once
const OURS = new Set(
  ("source path title url originalFilename tags documentId chunkOrder totalChunks pageNumber pageEnd pageStarts sectionTitle documentType sourceType language tokenCount " +
    "file charCount chunkType semanticScore createdAt updatedAt start end version chunkId contextBefore tableHeader description pageCount").split(" "),
);

export default async function document_(main, app) {
  const id = encodeURIComponent(app.id);
  fill(main, h("p", { class: "muted", role: "status" }, "Opening the document…"));
  try {
    const response = await request("GET", `/rag/documents/${id}`);
    const found = await response.json();
    if (app.signal.aborted) return;
    show(main, app, found);
  } catch (error) {
    if (app.signal.aborted) return;
    const gone = error.status === 404;
    fill(main, back(), gone ? empty("There is no such document.", "It may have been erased, or it belongs to another tenant.") : failure(error, () => document_(main, app)));
  }
}

function back() {
  return h("p", {}, h("a", { class: "back", href: "/documents" }, icon("back"), "Documents"));
}

function show(main, app, found) {
  const name = found.title || found.path || "Erased document";
  app.title(name);
  const text = h("div", { class: "paper", "aria-busy": "true" }, h("p", { class: "muted" }, "Reading…"));
  const details = h("div", { class: "card" });
  const timeline = h("ol", { class: "timeline" });
  const again = () => document_(main, app);
  const more = (found.noteCount ?? 0) - (found.notes ?? []).length;
  const uploads = new Uploads(again);
  fill(
    main,
    h(
      "section",
      { class: leaving(found.documentId) ? "one-document leaving" : "one-document" },
      back(),
      h("div", { class: "row apart top-aligned" }, h("h1", { dir: "auto", title: name }, name), badge(standing(found))),
      h("p", { class: "where muted" }, h("span", { dir: "auto" }, found.path ? `${found.source} / ${found.path}` : found.documentId), found.url ? h("span", { dir: "auto" }, found.url) : null),
      found.error ? h("div", { class: "note bad" }, h("p", { dir: "auto" }, found.error), h("p", { class: "muted" }, found.chunkCount ? "An earlier version still answers." : "Nothing of this document can be found until it is sent again.")) : null,
      found.noteCount ? h("div", { class: "note" }, h("p", {}, "Not everything could be read:"), h("ul", {}, found.notes.map((each) => h("li", { dir: "auto" }, noted(each))), more ? h("li", {}, `${more} more`) : null)) : null,
      uploads.element,
      h("div", { class: "columns" }, h("div", { class: "grow" }, text), h("aside", {}, actions(main, app, found, uploads), h("div", { class: "card" }, h("h2", {}, "How it came here"), timeline), details)),
    ),
  );
  times(timeline, app, found, again);
  const edit = editor(app, found, again); // one for both, so that what is typed meanwhile stays
  describe(details, found, null, edit);
  read(text, app, found, (first) => describe(details, found, first, edit));
}

function actions(main, app, found, uploads) {
  if (!app.may("ingest") || standing(found) === "deleted" || !found.path) return null;
  const chosen = h("input", { type: "file", class: "hidden", tabindex: "-1", "aria-label": "A newer version" });
  chosen.addEventListener("change", () => uploads.add([...chosen.files].map((file) => ({ file, path: found.path })), found.source, true));
  const gone = (how) => {
    main.querySelector(".one-document")?.classList.toggle("leaving", how === "leaving");
    if (how === "deleted") app.go("/documents");
  };
  const reread = async (event) => {
    event.target.disabled = true;
    try {
      await request("POST", "/rag/ingest/url", { body: { url: found.url, source: found.source, path: found.path }, headers: { Prefer: "wait=60" } });
      document_(main, app);
    } catch (error) {
      app.say(error.sentence ?? String(error), { bad: true });
      event.target.disabled = false;
    }
  };
  return h(
    "div",
    { class: "row actions" },
    chosen,
    h("button", { type: "button", onclick: () => chosen.click() }, icon("upload"), "New version"),
    /^https?:/.test(found.url ?? "") ? h("button", { type: "button", title: "Fetch the page again", onclick: reread }, icon("redo"), "Read again") : null,
    found.sha256 && !/^https?:/.test(found.url ?? "") ? h("button", { type: "button", title: "Download the file as it was sent", onclick: () => download(app, found) }, icon("download"), "Original") : null,
    h("button", { type: "button", class: "danger", onclick: () => remove(app, found, gone) }, icon("trash"), "Delete"),
  );
}

/** Save the original; what the server says instead is told, because it keeps originals only for a while. */
async function download(app, found) {
  try {
    const response = await request("GET", `/rag/documents/${encodeURIComponent(found.documentId)}/original`, { headers: { Accept: "*/*" } });
    const address = URL.createObjectURL(await response.blob());
    h("a", { href: address, download: found.filename || found.path.split("/").at(-1) || "document" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch (error) {
    app.say(error.sentence ?? String(error), { bad: true });
  }
}

function describe(box, found, metadata, edit) {
  const rows = [
    ["Version", [found.createdAt === found.updatedAt ? "the first, " : "", when(found.updatedAt)]],
    found.createdAt === found.updatedAt ? null : ["First added", when(found.createdAt)],
    ["Chunks", count(found.chunkCount)],
    found.bytes ? ["Size", bytes(found.bytes)] : null,
    found.pageCount ? ["Pages", count(found.pageCount)] : null,
    found.documentType || metadata?.documentType ? ["Type", found.documentType ?? metadata.documentType] : null,
    found.language || metadata?.language ? ["Language", found.language ?? metadata.language] : null,
    metadata?.originalFilename && metadata.originalFilename !== found.path ? ["File", h("span", { dir: "auto" }, metadata.originalFilename)] : null,
    found.tags.length ? ["Tags", h("span", { class: "chips" }, found.tags.map((tag) => h("a", { class: "chip", href: `/search?tag=${encodeURIComponent(tag)}` }, h("span", { class: "cut" }, `#${tag}`))))] : null,
    found.description ? ["Description", h("span", { dir: "auto" }, found.description)] : null,
    ...Object.entries(found.file ?? {}).map(([name, value]) => [`file.${name}`, h("span", { dir: "auto" }, [value].flat().join("; "))]),
    ...Object.entries({ ...own(metadata), ...found.metadata }).map(([name, value]) => [name, h("span", { dir: "auto" }, typeof value === "string" ? value : JSON.stringify(value))]),
    ...(found.callbacks ?? []).map((each) => ["Callback", h("span", { dir: "auto", title: each.url }, called(each))]),
    ["Id", h("code", {}, found.documentId)],
  ].filter(Boolean);
  fill(box, h("h2", {}, "About it"), edit, h("dl", {}, rows.map(([name, value]) => h("div", {}, h("dt", { dir: "auto" }, name), h("dd", {}, value)))));
}

function called({ state, tries = 0, error }) {
  const after = tries ? ` after ${plural(tries, "try", "tries")}` : "";
  const name = { waiting: "waits for the end", sending: `not delivered yet${after}`, delivered: `delivered${after}`, failed: `given up${after}` }[state] ?? state;
  return error ? `${name}: ${error}` : name;
}

function own(metadata) {
  return Object.fromEntries(Object.entries(metadata ?? {}).filter(([name]) => !OURS.has(name)));
}

const STAGES = { received: "Received", extracted: "Text read", chunked: "Cut into chunks", searchable: "Searchable", unchanged: "Found unchanged", failed: "Failed", deleted: "Deleted" };

function times(list, app, found, again) {
  const lines = (found.stages ?? []).map(({ stage, at, seconds }) =>
    h("li", { class: "done" }, h("strong", {}, STAGES[stage] ?? stage), " ", at ? when(at) : null, seconds === undefined ? null : [" ", h("span", { class: "muted fixed" }, `after ${span(seconds * 1000)}`)]),
  );
  if (found.endedAt) return fill(list, lines);
  const now = h("li", { class: "now" }, "Under way…");
  fill(list, lines, now);
  return watch(
    `/rag/documents/${encodeURIComponent(found.documentId)}/events`,
    (told) => {
      const name = { extracted: "Read", embedding: "Embedding", received: "Received" }[told.step];
      if (told.step !== "received" && name) fill(now, name, told.chunkCount ? `: ${told.chunksEmbedded ?? 0} of ${plural(told.chunkCount, "chunk")}` : "");
    },
    app.signal,
  ).then(again, () => {});
}

async function read(box, app, found, first) {
  const id = encodeURIComponent(found.documentId);
  const wanted = app.params.get("chunk");
  if (standing(found) === "deleted") return fill(box, empty("This document is deleted.")).removeAttribute("aria-busy");
  try {
    const page = await get(`/rag/documents/${id}/chunks`, { limit: PAGE });
    if (!page.items.length) {
      const why = standing(found) === "processing" ? "It is being processed. Its text appears here as soon as it can be searched." : "Nothing of it can be searched.";
      return fill(box, empty("There is no text yet.", why));
    }
    first(page.items[0].metadata);
    const response = await request("GET", `/rag/documents/${id}/text`, { headers: { Accept: "text/markdown, text/plain;q=0.9, application/json;q=0.1" } }).catch((error) => {
      if (error instanceof Problem && error.status < 500) return null;
      throw error;
    });
    const drawn = new Drawn(response ? await response.text() : null, response ? /^text\/markdown/.test(response.headers.get("content-type")) : isMarkdown(page.items[0].metadata.documentType), wanted, page.items[0].metadata.documentType === "pdf" ? (number) => `/rag/documents/${id}/original?page=${number}` : null);
    const note = h("p", { class: "muted legend" }, "Each bar at the side is one chunk: what a search finds and an answer cites.");
    const body = h("div", { class: "chunks" });
    const rest = h("button", { type: "button", class: "more" }, "Show more");
    fill(box, note, body, rest);
    let { nextCursor } = page;
    drawn.add(body, page.items, !nextCursor);
    while (nextCursor && wanted && !drawn.target) nextCursor = await more(nextCursor);
    async function more(cursor) {
      const next = await get(`/rag/documents/${id}/chunks`, { limit: PAGE, cursor });
      drawn.add(body, next.items, !next.nextCursor);
      return next.nextCursor;
    }
    rest.hidden = !nextCursor;
    rest.addEventListener("click", async () => {
      rest.disabled = true;
      nextCursor = await more(nextCursor).catch((error) => (app.say(error.sentence ?? String(error), { bad: true }), null));
      rest.disabled = false;
      rest.hidden = !nextCursor;
    });
    drawn.jump(app);
  } catch (error) {
    fill(box, failure(error, () => read(box, app, found, first)));
  } finally {
    box.removeAttribute("aria-busy");
  }
}

/** A text that is cut where its chunks begin and end. */
class Drawn {
  constructor(text, markdown, wanted, pages) {
    // The server counts characters, a string in here UTF-16 units: they differ where the text has emoji and the like.
    this.units = text === null || !/[\ud800-\udbff]/.test(text) ? null : offsets(text);
    this.text = text;
    this.markdown = markdown;
    this.wanted = wanted;
    this.pages = pages; // gives the address of a page's picture, or null
    this.page = 0; // the last page that has a button
    this.target = null;
    this.end = 0;
    this.number = 0;
  }

  at(character) {
    return this.units ? (this.units[character] ?? this.text.length) : character;
  }

  add(body, chunks, last) {
    for (const { text, metadata } of chunks) {
      let shown = text;
      if (this.text !== null) {
        const start = Math.max(this.end, this.at(metadata.start));
        this.gap(body, start);
        shown = this.text.slice(start, this.at(metadata.end)) || text;
        this.end = Math.max(this.end, this.at(metadata.end));
      }
      const hit = metadata.chunkId === this.wanted;
      const about = [`Chunk ${metadata.chunkOrder + 1} of ${metadata.totalChunks}`, metadata.pageNumber ? `page ${metadata.pageNumber}` : null, plural(metadata.tokenCount ?? 0, "token")].filter(Boolean).join(", ");
      const section = h(
        "section",
        { class: hit ? "chunk hit" : "chunk", id: `chunk-${metadata.chunkOrder}`, "aria-label": hit ? `${about}: the passage that was cited` : about, tabindex: hit ? "-1" : null },
        h("span", { class: "tag", title: about, "aria-hidden": "true" }, String(metadata.chunkOrder + 1)),
        this.look(metadata.pageNumber),
        metadata.tableHeader ? h("p", { class: "muted", dir: "auto" }, metadata.tableHeader) : null,
        prose(shown, { markdown: this.markdown }),
      );
      if (hit) this.target = section;
      body.append(section);
    }
    if (last && this.text !== null) this.gap(body, this.text.length);
  }

  /** Return a button that shows the page on which a chunk begins, beside the first such chunk. */
  look(page) {
    if (!page || page === this.page || !this.pages) return null;
    this.page = page;
    const name = `Page ${page}`;
    return h("details", { class: "page" }, h("summary", {}, name), h("img", { alt: name, loading: "lazy", src: this.pages(page), onerror: (event) => event.target.replaceWith(h("p", { class: "muted" }, "The original isn't kept any more, so its pages can't be shown.")) }));
  }

  /** Draw what stands between two chunks, if it is more than white space. */
  gap(body, start) {
    const between = this.text.slice(this.end, start);
    if (between.trim()) body.append(h("div", { class: "between" }, prose(between.slice(0, 8000), { markdown: this.markdown })));
    this.end = Math.max(this.end, start);
  }

  jump(app) {
    if (!this.wanted) return;
    if (!this.target) return app.say("The passage is no longer in this document: it has changed since.");
    this.target.scrollIntoView({ block: "center" });
    this.target.focus({ preventScroll: true });
  }
}

function offsets(text) {
  const found = [];
  let unit = 0;
  for (const character of text) {
    found.push(unit);
    unit += character.length;
  }
  found.push(unit);
  return found;
}
