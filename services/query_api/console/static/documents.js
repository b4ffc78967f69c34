// Documents: how each stands, found and ordered; files are added by a drop or a button.

import { get } from "./api.js";
import { badge, count, dot, empty, failure, fill, h, icon, noted, plural, settled, standing, standingCount, STANDINGS, when } from "./dom.js";
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
  };
  const render = () => {
    if (!shown.length) {
      const filtered = state.q || state.standing || state.source;
      fill(list, filtered ? empty("No document fits.", h("button", { type: "button", class: "link", onclick: () => ((find.value = ""), change({ q: "", standing: "", source: "" })) }, "Show all of them")) : app.may("ingest") ? empty("There are no documents yet.", "Drop files or a folder anywhere on this page.") : empty("There are no documents yet."));
      return;
    }
    fill(
      list,
      h("ul", { class: "documents" }, shown.map((each) => row(each, app, () => load({ quiet: true })))),
      cursor ? h("button", { type: "button", class: "more", onclick: () => load({ more: true }) }, "Show more") : null,
    );
  };

  const view = h("section", { class: "all-documents" });
  fill(
    view,
    h("div", { class: "row apart" }, h("h1", {}, "Documents"), app.may("ingest") ? adding(view, app, () => load({ quiet: true })) : null),
    app.may("query") ? [h("div", { class: "toolbar" }, h("div", { class: "find small" }, icon("search"), find), sources, sort), states] : null,
    uploads?.element,
    app.may("query") ? list : empty("Your key may add documents but not see any.", "Drop files or a folder anywhere on this page."),
  );
  fill(main, view);
  app.signal.addEventListener("abort", () => clearTimeout(timer));
  if (app.may("query")) load();
}

function row(each, app, reload) {
  const stands = standing(each);
  const gone = stands === "deleted";
  const line = h("li", { class: leaving(each.documentId) ? "document leaving" : "document" });
  const changed = (how) => {
    line.classList.toggle("leaving", how === "leaving");
    if (how === "deleted" || how === "failed") reload();
  };
  const button = h("button", { type: "button", class: "quiet", "aria-label": `Delete ${each.title || each.path}`, title: "Delete", onclick: () => remove(app, each, changed) }, icon("trash"));
  return fill(
    line,
    h(
      "div",
      { class: "grow" },
      h("div", { class: "row" }, dot(stands), h("a", { class: "title cut", href: `/documents/${each.documentId}`, dir: "auto" }, each.title || each.path || "Erased document"), stands === "searchable" ? null : badge(stands)),
      h("p", { class: "muted about" }, h("span", { class: "cut", dir: "auto" }, each.path ? `${each.source} / ${each.path}` : each.documentId), each.chunkCount ? h("span", { class: "fixed" }, plural(each.chunkCount, "chunk")) : null, h("span", { class: "fixed" }, when(each.updatedAt))),
      each.error ? h("p", { class: "error", dir: "auto" }, each.error) : null,
      each.noteCount ? h("p", { class: "muted noted", dir: "auto" }, `${plural(each.noteCount, "note")}: ${noted(each.notes[0])}`) : null,
    ),
    gone || !app.may("ingest") ? null : button,
  );
}

/** Return the buttons that add files, and let the view take drops. */
function adding(view, app, done) {
  uploads ??= new Uploads(() => {});
  uploads.done = done;
  const source = h("input", { id: "source", value: "upload", maxlength: "200", required: true });
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
    h("label", { for: "source", class: "muted" }, "into"),
    source,
    chosen,
    h("button", { type: "button", class: "primary", onclick: () => chosen.click() }, icon("upload"), "Add files"),
  );
}
