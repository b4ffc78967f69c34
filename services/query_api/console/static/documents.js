// Documents: how each stands, found and ordered; files are added by a drop or a button.

import { get, post, request } from "./api.js";
import { badge, count, dot, empty, failure, fill, h, icon, noted, plural, settled, standing, standingCount, STANDINGS, sure, when } from "./dom.js";
import { leaving, remove } from "./removal.js";
import { dropped, Uploads } from "./upload.js";

const SORTS = [
  ["-updatedAt", "Last changed"],
  ["-createdAt", "Newest"],
  ["title", "Title"],
  ["path", "Path"],
];
const PAGE = 50;
const AGAIN_MS = 3000;

let uploads = null; // they go on while another view is shown

export default function documents(main, app) {
  const { params } = app;
  const state = { q: params.get("q") ?? "", standing: params.get("standing") ?? "", source: params.get("source") ?? "", sort: params.get("sort") ?? "-updatedAt" };
  const list = h("div", { class: "list" });
  const states = h("div", { class: "segments wide", role: "group", "aria-label": "State" });
  const sources = h("select", { "aria-label": "Source", onchange: () => change({ source: sources.value }) }, h("option", { value: "" }, "All sources"));
  const sort = h("select", { "aria-label": "Order", onchange: () => change({ sort: sort.value }) }, SORTS.map(([value, name]) => h("option", { value }, name)));
  const find = h("input", { type: "search", value: state.q, placeholder: "Find by title, path or description", "aria-label": "Find by title, path or description", "data-find": "", dir: "auto", oninput: settled(() => change({ q: find.value })) });
  sort.value = state.sort;
  const chosen = new Set(); // ids
  const picks = h("div", { class: "row picks" });
  let shown = [];
  let cursor = null;
  let asked = 0;
  let timer = 0;

  const change = (what) => {
    Object.assign(state, what);
    app.remember({ ...state, sort: state.sort === "-updatedAt" ? "" : state.sort });
    load();
  };
  const wanted = () => ({ q: state.q, status: STANDINGS[state.standing] ?? [], source: state.source, sort: state.sort });
  const load = async ({ more = false, quiet = false } = {}) => {
    const mine = ++asked;
    clearTimeout(timer);
    if (!quiet) list.setAttribute("aria-busy", "true");
    try {
      const limit = quiet ? Math.min(1000, Math.max(PAGE, shown.length)) : PAGE;
      const [page] = await Promise.all([get("/rag/documents", { ...wanted(), limit, cursor: more ? cursor : "" }), more ? null : tell()]);
      if (mine !== asked) return;
      shown = more ? [...shown, ...page.items] : page.items;
      cursor = page.nextCursor;
      render();
    } catch (error) {
      if (mine === asked && !quiet) fill(list, failure(error, () => load()));
    } finally {
      if (mine === asked) {
        list.removeAttribute("aria-busy");
        if (!app.signal.aborted && shown.some((each) => standing(each) === "processing")) timer = setTimeout(() => load({ quiet: true }), AGAIN_MS);
      }
    }
  };
  const tell = async () => {
    const stats = await get("/rag/stats");
    const every = [["", "All", stats.documents.total], ...Object.keys(STANDINGS).map((name) => [name, name[0].toUpperCase() + name.slice(1), standingCount(stats.documents, name)])];
    fill(states, every.map(([value, name, number]) => h("button", { type: "button", "aria-pressed": String(state.standing === value), onclick: () => change({ standing: value }) }, name, h("span", { class: "figure" }, count(number)))));
    const names = stats.sources.map((each) => each.source);
    if (state.source && !names.includes(state.source)) names.push(state.source);
    fill(sources, h("option", { value: "" }, "All sources"), names.slice(0, 500).map((name) => h("option", { value: name }, name)));
    sources.value = state.source;
    const known = view.querySelector("#sources");
    if (known) fill(known, names.slice(0, 500).map((name) => h("option", { value: name })));
    app.counted();
  };
  const pick = () => {
    const mine = shown.filter((each) => chosen.has(each.documentId));
    if (!mine.length) return fill(picks);
    return fill(
      picks,
      h("span", { class: "strong grow", role: "status" }, `${plural(mine.length, "document")} chosen`),
      h("button", { type: "button", class: "quiet", onclick: () => all(mine.length < shown.length) }, mine.length < shown.length ? "All shown" : "None"),
      tagging(mine),
      h("button", { type: "button", title: "If the reader has become better since", onclick: () => each_(mine, "read again", ({ documentId }) => send("POST", documentId, "/reread")) }, "Read again"),
      sure("trash", "Delete", `Delete ${plural(mine.length, "document")}?`, () => each_(mine, "deleted", ({ documentId }) => send("DELETE", documentId)), "danger"),
    );
  };
  const all = (every) => {
    chosen.clear();
    for (const each of every ? shown : []) chosen.add(each.documentId);
    render();
  };
  const send = (method, id, rest = "", body = undefined, etag = undefined) => request(method, `/rag/documents/${encodeURIComponent(id)}${rest}`, { body, headers: { Prefer: "respond-async", ...(etag ? { "If-Match": etag } : {}) } });
  const tagging = (mine) => {
    const name = h("input", { "aria-label": "Tag for the chosen documents", placeholder: "tag", size: "10", required: true });
    const form = h("form", { class: "row" }, name, h("button", {}, "Add tag"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      each_(mine, "tagged", ({ documentId, tags, etag }) => send("PATCH", documentId, "", { tags: [...new Set([...tags, name.value.trim()])] }, etag));
    });
    return form;
  };
  /** Do it to one after the other; what was refused stays chosen. */
  const each_ = async (mine, done, act) => {
    let why = null;
    for (const each of mine) {
      try {
        await act(each);
        chosen.delete(each.documentId);
      } catch (error) {
        why = error;
      }
    }
    const left = mine.filter((each) => chosen.has(each.documentId)).length;
    app.say(`${plural(mine.length - left, "document")} will be ${done}.`, why ? ` ${count(left)} refused: ${why.sentence ?? why}` : "", { bad: Boolean(why) });
    load({ quiet: true });
  };
  const render = () => {
    pick();
    if (!shown.length) {
      const filtered = state.q || state.standing || state.source;
      fill(list, filtered ? empty("No document fits.", h("button", { type: "button", class: "link", onclick: () => ((find.value = ""), change({ q: "", standing: "", source: "" })) }, "Show all of them")) : app.may("ingest") ? empty("There are no documents yet.", "Drop files or a folder anywhere on this page.") : empty("There are no documents yet."));
      return;
    }
    fill(
      list,
      h("ul", { class: "documents" }, shown.map((each) => row(each, app, () => load({ quiet: true }), { chosen, pick }))),
      cursor ? h("button", { type: "button", class: "more", onclick: () => load({ more: true }) }, "Show more") : null,
    );
  };

  const view = h("section", { class: "all-documents" });
  fill(
    view,
    h("div", { class: "row apart" }, h("h1", {}, "Documents"), app.may("ingest") ? adding(view, app, () => load({ quiet: true })) : null),
    app.may("query") ? [h("div", { class: "toolbar" }, h("div", { class: "find small" }, icon("search"), find), sources, sort), states, app.may("ingest") ? picks : null] : null,
    uploads?.element,
    app.may("query") ? list : empty("Your key may add documents but not see any.", "Drop files or a folder anywhere on this page."),
  );
  fill(main, view);
  app.signal.addEventListener("abort", () => clearTimeout(timer));
  if (app.may("query")) load();
}

function row(each, app, reload, { chosen, pick }) {
  const stands = standing(each);
  const gone = stands === "deleted";
  const line = h("li", { class: leaving(each.documentId) ? "document leaving" : "document" });
  const changed = (how) => {
    line.classList.toggle("leaving", how === "leaving");
    if (how === "deleted" || how === "failed") reload();
  };
  const button = h("button", { type: "button", class: "quiet", "aria-label": `Delete ${each.title || each.path}`, title: "Delete", onclick: () => remove(app, each, changed) }, icon("trash"));
  const box = h("input", { type: "checkbox", checked: chosen.has(each.documentId), "aria-label": `Choose ${each.title || each.path}`, onchange: () => (box.checked ? chosen.add(each.documentId) : chosen.delete(each.documentId), pick()) });
  return fill(
    line,
    gone || !app.may("ingest") ? null : box,
    h(
      "div",
      { class: "grow" },
      h("div", { class: "row" }, dot(stands), h("a", { class: "title cut", href: `/documents/${each.documentId}`, dir: "auto" }, each.title || each.path || "Erased document"), stands === "searchable" ? null : badge(stands)),
      h("p", { class: "muted about" }, h("span", { class: "cut", dir: "auto" }, each.path ? `${each.source} / ${each.path}` : each.documentId), each.chunkCount ? h("span", { class: "fixed" }, plural(each.chunkCount, "chunk")) : null, h("span", { class: "fixed" }, when(each.updatedAt))),
      each.error ? h("p", { class: "error", dir: "auto" }, each.error, " ", app.may("admin") ? h("button", { type: "button", class: "link", onclick: () => retried(each, app, reload) }, "Try again") : h("span", { class: "muted" }, "Send it again once the cause is fixed.")) : null,
      each.noteCount ? h("p", { class: "muted noted", dir: "auto" }, `${plural(each.noteCount, "note")}: ${noted(each.notes[0])}`) : null,
    ),
    gone || !app.may("ingest") ? null : button,
  );
}

/** Send a failed document through the pipeline again, as it was received. */
async function retried({ documentId }, app, reload) {
  try {
    const { items } = await post("/ops/dead-letters/redrive", { documentId });
    const [first] = items;
    app.say(first ? (first.sentence ?? (first.outcome === "redriven" ? "It is processed again." : first.outcome)) : "Nothing of it is kept: send it again.");
  } catch (error) {
    app.say(error.sentence ?? String(error), { bad: true });
  }
  reload();
}

/** Return the buttons that add files, and let the view take drops. */
function adding(view, app, done) {
  uploads ??= new Uploads(() => {});
  uploads.clear();
  uploads.done = done;
  const source = h("input", { id: "source", value: "upload", maxlength: "200", required: true, list: "sources" });
  const chosen = h("input", { type: "file", multiple: true, class: "hidden", tabindex: "-1", "aria-label": "Files to add" });
  const add = (files) => {
    const sized = files.filter(({ file }) => file.size > 0);
    if (sized.length < files.length) app.say(`${plural(files.length - sized.length, "empty file")} left out.`);
    uploads.add(sized, source.value.trim() || "upload");
  };
  chosen.addEventListener("change", () => {
    add([...chosen.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));
    chosen.value = "";
  });
  let over = 0;
  const drag = (event, by) => {
    if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
    event.preventDefault();
    over = Math.max(0, over + by);
    view.classList.toggle("dropping", over > 0);
  };
  addEventListener("dragenter", (event) => drag(event, 1), { signal: app.signal });
  addEventListener("dragleave", (event) => drag(event, -1), { signal: app.signal });
  addEventListener("dragover", (event) => drag(event, 0), { signal: app.signal });
  addEventListener(
    "drop",
    async (event) => {
      drag(event, -over);
      add(await dropped(event.dataTransfer));
    },
    { signal: app.signal },
  );
  return h(
    "div",
    { class: "row adding" },
    h("label", { for: "source", class: "muted" }, "into the source"),
    source,
    h("datalist", { id: "sources" }),
    chosen,
    h("button", { type: "button", class: "primary", onclick: () => chosen.click() }, icon("upload"), "Add files"),
  );
}
