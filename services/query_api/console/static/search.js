// Search: passages with the words marked, why each was found, and filters by a click.

import { get, post } from "./api.js";
import { empty, failure, fill, h, icon, plural, settled, wordsOf } from "./dom.js";
import { passage } from "./passage.js";
import { Scope } from "./scope.js";

const MODES = [
  ["hybrid", "Both", "By meaning and by words"],
  ["dense", "Meaning", "Passages that say the same in other words"],
  ["sparse", "Words", "Passages with the same words"],
];
const STEP = 10;
const COUNTED = 50; // passages whose fields are counted
const FACETS = [
  ["source", "Source", "source"],
  ["tags", "Tag", "tag"],
  ["documentType", "Type", "type"],
  ["language", "Language", "language"],
];
const SHOWN = 8; // values of each facet

export default function search(main, app) {
  const { params } = app;
  const state = { mode: params.get("mode") ?? "hybrid", tags: new Set(params.getAll("tag")), type: new Set(params.getAll("type")), language: new Set(params.getAll("language")), count: STEP };
  const scope = new Scope(() => ran(), { sources: params.getAll("source"), documents: params.getAll("document").map((id) => [id, id]) });
  const query = h("input", { type: "search", id: "q", value: params.get("q") ?? "", placeholder: "Search your documents", "aria-label": "Search your documents", autocomplete: "off", "data-find": "", dir: "auto" });
  const modes = h("div", { class: "segments", role: "group", "aria-label": "How to search" });
  const filters = h("div", { class: "filters" });
  const results = h("div", { class: "results" });
  const told = h("p", { class: "muted told", role: "status" });
  const values = h("div", { class: "facets" });
  // Folded away on a phone, where the results come first.
  const facets = h("details", { class: "narrow-down", open: matchMedia("(min-width: 52rem)").matches, hidden: true }, h("summary", { class: "muted" }, "Narrow down"), values);
  let asking = null;

  const controls = () => {
    fill(modes, MODES.map(([mode, name, about]) => h("button", { type: "button", title: about, "aria-pressed": String(mode === state.mode), onclick: () => change(() => (state.mode = mode)) }, name)));
    fill(filters, scope.bar(), [...state.tags].map((tag) => h("button", { type: "button", class: "chip", "aria-label": `Leave out the tag ${tag}`, onclick: () => change(() => state.tags.delete(tag)) }, h("span", { class: "cut" }, `#${tag}`), icon("close"))), ["type", "language"].flatMap((kind) => [...state[kind]].map((value) => h("button", { type: "button", class: "chip", "aria-label": `Leave out the ${kind} ${value}`, onclick: () => change(() => state[kind].delete(value)) }, h("span", { class: "cut" }, value), icon("close")))));
  };
  const change = (act) => {
    act();
    state.count = STEP;
    ran();
  };
  const ran = async () => {
    controls();
    const q = query.value.trim();
    app.remember({ q, mode: state.mode === "hybrid" ? "" : state.mode, tag: [...state.tags], type: [...state.type], language: [...state.language], source: [...scope.sources], document: [...scope.documents.keys()] });
    asking?.abort();
    if (!q) {
      told.textContent = "";
      facets.hidden = true;
      return fill(results, hint());
    }
    asking = new AbortController();
    const mine = asking;
    results.setAttribute("aria-busy", "true");
    const where = { ...(scope.filters ?? {}), ...(state.tags.size ? { tagsAll: [...state.tags] } : {}), ...(state.type.size ? { documentType: [...state.type] } : {}), ...(state.language.size ? { language: [...state.language] } : {}) };
    try {
      const reply = await post("/rag/search", { query: q, topK: Math.max(COUNTED, state.count), mode: state.mode, explain: true, filters: Object.keys(where).length ? where : undefined }, { signal: mine.signal });
      const took = reply.timings ? Object.values(reply.timings).reduce((sum, ms) => sum + (Number(ms) || 0), 0) : null;
      const shown = reply.results.slice(0, state.count);
      const relevant = reply.results.some((each) => each.score >= reply.threshold);
      fill(values, FACETS.map(([field, name, kind]) => choices(name, kind, tallied(reply.results, field), add)));
      facets.hidden = !values.children.length;
      told.textContent = relevant ? `The ${plural(shown.length, "best passage")}${took === null ? "" : ` in ${Math.max(1, Math.round(took))} ms`}` : "";
      if (reply.warnings?.length) told.textContent += ` · ${reply.warnings.join(" · ")}`;
      const words = state.mode === "dense" ? [] : wordsOf(q);
      fill(
        results,
        shown.length && !relevant ? h("div", { class: "note" }, h("p", { class: "strong" }, "Nothing relevant was found."), h("p", {}, "These passages are the nearest; an answer would use none of them.")) : null,
        h("h2", { class: "hidden" }, "Passages"),
        shown.map((each) => hit(each, words, add, reply.threshold)),
        reply.results.length === 0 ? empty("Nothing was found.", where && Object.keys(where).length ? "Try it without the filters, or in other words." : "Try other words, or add documents that say it.") : null,
        reply.results.length > state.count || (reply.results.length === state.count && state.count < 100) ? h("button", { type: "button", class: "more", onclick: () => change2() }, "More passages") : null,
      );
    } catch (error) {
      if (error.name !== "AbortError") fill(results, failure(error, ran));
    } finally {
      if (mine === asking) results.removeAttribute("aria-busy");
    }
  };
  const change2 = () => {
    state.count = Math.min(100, state.count + 2 * STEP);
    ran();
  };
  const add = (kind, value) =>
    change(() => {
      if (kind === "tag") state.tags.add(value);
      else if (kind !== "source") state[kind].add(value);
      else {
        scope.documents.clear();
        scope.sources.add(value);
      }
      scrollTo(0, 0);
    });

  query.addEventListener("input", settled(() => change(() => {}), 300));
  app.signal.addEventListener("abort", () => asking?.abort());
  const form = h("form", { role: "search", class: "find" }, icon("search"), query, modes);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    change(() => {});
  });
  fill(main, h("section", { class: "search" }, h("h1", {}, "Search"), form, filters, facets, told, results));
  query.focus({ preventScroll: true });
  ran();
  named(scope, controls);
}

/** Give the documents of a shared address their titles. */
async function named(scope, controls) {
  for (const id of scope.documents.keys()) {
    const found = await get(`/rag/documents/${encodeURIComponent(id)}`).catch(() => null);
    if (found) scope.documents.set(id, found.title || found.path);
  }
  if (scope.documents.size) controls();
}

function hint() {
  return empty("What are you looking for?", "Words and meaning count: “opening hours” also finds “the tower is open from nine to five”.");
}

function hit(found, words, add, threshold) {
  const { metadata } = found;
  const chips = h(
    "div",
    { class: "chips" },
    h("button", { type: "button", class: "chip", title: "Only this source", onclick: () => add("source", metadata.source) }, h("span", { class: "cut" }, metadata.source)),
    (metadata.tags ?? []).slice(0, 8).map((tag) => h("button", { type: "button", class: "chip", title: "Only with this tag", onclick: () => add("tag", tag) }, h("span", { class: "cut" }, `#${tag}`))),
    found.explain ? why(found) : null,
  );
  return passage(
    {
      title: metadata.title || metadata.path,
      href: `/documents/${metadata.documentId}?chunk=${encodeURIComponent(metadata.chunkId)}`,
      score: found.score,
      threshold,
      text: found.text,
      metadata,
    },
    { words, below: chips },
  );
}

/** Return the values of a field with how many of the passages have it, most frequent first. */
function tallied(results, field) {
  const numbers = new Map();
  for (const { metadata } of results) for (const value of [metadata[field] ?? []].flat()) numbers.set(value, (numbers.get(value) ?? 0) + 1);
  return [...numbers].sort((a, b) => b[1] - a[1]);
}

/** Return the most frequent values of a field as filters; nothing if there is no choice. */
function choices(name, kind, values, add) {
  if (values.length < 2) return null;
  return h(
    "div",
    { class: "chips", role: "group", "aria-label": name },
    h("span", { class: "muted" }, name),
    values.slice(0, SHOWN).map(([value, passages]) => h("button", { type: "button", class: "chip", title: `Only these; ${plural(passages, "passage")} here`, onclick: () => add(kind, String(value)) }, h("span", { class: "cut" }, String(value)), h("span", { class: "muted" }, String(passages)))),
  );
}

/** Return the figures that the score is made of. */
function why(found) {
  const { cosine, bm25, coverage, ranks = {} } = found.explain;
  const place = (leg) => (ranks[leg] ? `rank ${ranks[leg]} in this ranking` : "not among the best of this ranking");
  const line = (name, figures, leg) => h("li", {}, h("strong", {}, name), `: ${[place(leg), ...figures].filter(Boolean).join(", ")}`);
  const figure = (label, value) => (typeof value === "number" ? `${label} ${value.toFixed(2)}` : null);
  return h(
    "details",
    { class: "why" },
    h("summary", {}, "Why this passage?"),
    h("ul", {}, line("Meaning", [figure("cosine", cosine)], "dense"), line("Words", [figure("BM25", bm25), typeof coverage === "number" ? `${Math.round(100 * coverage)} % of the query's words` : null], "sparse")),
    h("p", { class: "muted" }, `The score ${found.score.toFixed(2)} depends only on the query and this passage, so you can compare it with scores of other searches.`),
  );
}
