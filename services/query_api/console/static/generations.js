// Generations: what the index was built with, how far another one is, and which one answers.

import { get, post } from "./api.js";
import { comparison } from "./comparison.js";
import { count, failure, fill, h, icon, plural, s, span, standingCount, sure } from "./dom.js";

const AGAIN_MS = 3000;
const WORDS = { building: "processing", ready: "searchable", serving: "searchable", retired: "", past: "searchable" };

export default function generations(main, app) {
  const box = h("div", { "aria-busy": "true" });
  const told = h("div", {}); // why something was refused, and the last comparison: a refresh leaves both
  const lead = "A generation is one build of the index: a model and a way to split documents into chunks. Each has vectors of its own, so another model never mixes with the one that answers.";
  fill(main, h("section", { class: "generations" }, h("h1", {}, "Generations"), h("p", { class: "muted lead" }, lead), box, told));
  let timer = 0;
  let last = "";
  const load = async () => {
    clearTimeout(timer);
    try {
      const found = app.may("operator") ? await get("/ops/generations") : await asReader();
      // Nobody loses a question that they are about to answer, or the button that they have reached by keys.
      if (app.signal.aborted || JSON.stringify(found) === last || box.querySelector("[data-sure]")) return;
      last = JSON.stringify(found);
      const reached = [...box.querySelectorAll("button")].indexOf(document.activeElement);
      fill(box, shown(found, { app, act, compare }));
      if (reached >= 0) box.querySelectorAll("button")[reached]?.focus({ preventScroll: true });
    } catch (error) {
      last = "";
      if (!app.signal.aborted) fill(box, failure(error, load));
    } finally {
      box.removeAttribute("aria-busy");
      if (!app.signal.aborted && app.may("operator")) timer = setTimeout(load, AGAIN_MS);
    }
  };
  const act = async (what, body = {}) => {
    fill(told);
    try {
      const { sentence } = await post(`/ops/generations/${what}`, body);
      app.say(`${sentence[0].toUpperCase()}${sentence.slice(1)}.`);
    } catch (error) {
      const anyway = error.code === "INCOMPLETE" ? sure(null, "Switch without these documents", "Sure? Searches won't find them", () => act("switch", { ...body, force: true }), "danger") : null;
      fill(told, h("div", { class: "note bad", role: "alert" }, h("p", {}, error.sentence ?? String(error)), anyway));
    }
    load();
  };
  const compare = async (id) => {
    fill(told, h("p", { class: "muted", role: "status" }, "Asking both generations…"));
    try {
      fill(told, comparison(await post("/ops/generations/compare", { id })));
    } catch (error) {
      fill(told, failure(error, () => compare(id)));
    }
  };
  app.signal.addEventListener("abort", () => clearTimeout(timer));
  load();
}

/** Return what somebody may see who can't change anything: the generation that answers. */
async function asReader() {
  const { generation, chunks, documents } = await get("/rag/stats");
  return { items: [{ ...generation, state: "serving", chunks, documents: standingCount(documents, "searchable") }] };
}

function shown({ items, switching }, { app, act, compare }) {
  const retired = items.filter((each) => each.state === "retired" || each.state === "past");
  const waits = switching ? h("div", { class: "note", role: "status" }, h("p", {}, `${switching[0].toUpperCase()}${switching.slice(1)}.`), h("button", { type: "button", onclick: () => act("cancel") }, icon("close"), "Give the switch up")) : null;
  const alone = app.may("operator") && items.length === 1 ? h("p", { class: "muted" }, "Build another one with ", h("code", {}, "sluice reindex start"), ": this one goes on answering meanwhile.") : null;
  const drop = retired.length && !switching ? h("div", { class: "row" }, sure("trash", `Drop ${plural(retired.length, retired.some((each) => each.state === "past") ? "generation" : "retired generation")}`, "For good? There is no way back then", () => act("gc"), "danger")) : null;
  return [waits, h("div", { class: "builds" }, items.map((each) => card(each, { switching, act, compare }))), alone, drop];
}

function card(each, { switching, act, compare }) {
  const unit = each.chunkUnit;
  const rows = [
    ["Model", each.model],
    ["Vector", `${count(each.dimension)} numbers`],
    ["Chunk", `at most ${count(each.chunkSize)} ${unit}`],
    ["Overlap", each.chunkOverlap ? `${count(each.chunkOverlap)} ${unit}` : "none"],
    ["Chunker", `version ${each.chunker}`],
    ["Holds", `${count(each.documents)} documents, ${count(each.chunks)} chunks`],
  ];
  if (each.asOf) rows.push(["Shows", `the documents as of ${each.asOf}`]);
  if (each.unread) rows.push(["Waiting", plural(each.unread, "record")]);
  if (each.failed) rows.push(["Failed", h("a", { href: "/dead-letters" }, plural(each.failed, "record"))]);
  if (each.embedded || each.copied) rows.push(["Since the start", `${plural(each.embedded, "text")} embedded, ${plural(each.copied, "vector")} copied`]);
  return h(
    "article",
    { class: "card generation" },
    h("div", { class: "row apart" }, h("h2", {}, h("code", {}, each.id)), h("span", { class: `badge ${WORDS[each.state] ?? ""}` }, each.state)),
    each.state === "building" ? progress(each) : null,
    h("dl", { class: "pairs" }, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    each.state === "serving" ? null : h("div", { class: "row wrap" }, buttons(each, { switching, act, compare })),
  );
}

function buttons(each, { switching, act, compare }) {
  const look = h("button", { type: "button", onclick: () => compare(each.id) }, icon("search"), "Compare");
  if (switching) return [look];
  if (each.state === "building") return [look, cancel(act)];
  if (each.state === "past") return [look];
  if (each.state === "retired") return [look, sure("back", "Roll back", "Let it answer again?", () => act("rollback"))];
  return [look, sure("check", "Switch", "Let it answer from now on?", () => act("switch", { id: each.id }), "primary"), cancel(act)];
}

function cancel(act) {
  return sure("trash", "Cancel", "Drop what is built of it?", () => act("cancel"), "danger");
}

function progress({ documents, ofDocuments: all, rate, secondsLeft }) {
  const share = all ? Math.min(100, (100 * documents) / all) : 0;
  const pace = rate ? `, ${rate} a second${secondsLeft === undefined || secondsLeft === null ? "" : `, about ${span(1000 * secondsLeft)} left`}` : "";
  const about = `${count(documents)} of ${plural(all, "document")}${pace}`;
  return h("div", {}, h("p", { class: "muted" }, about), s("svg", { class: "chart flat", viewBox: "0 0 100 4", preserveAspectRatio: "none", role: "img", "aria-label": about }, s("rect", { class: "none", width: 100, height: 4 }), s("rect", { class: "good", width: share, height: 4 })));
}
