// Chooses what a question or a search looks at: everything, some sources, or some documents.

import { get } from "./api.js";
import { empty, failure, fill, h, icon, plural, settled, STANDINGS } from "./dom.js";

/** A choice of sources or documents. `changed` is called after each change. */
export class Scope {
  constructor(changed, { sources = [], documents = [] } = {}) {
    this.sources = new Set(sources);
    this.documents = new Map(documents);
    this.changed = changed;
  }

  /** The filters as a search takes them; null: everything. */
  get filters() {
    if (this.documents.size) return { documentIds: [...this.documents.keys()] };
    return this.sources.size ? { source: [...this.sources] } : null;
  }

  /** Return the row that shows what is chosen, with the button that changes it. */
  bar() {
    const chips = [
      ...[...this.sources].map((name) => this.chip(name, "source", () => this.sources.delete(name))),
      ...[...this.documents].map(([id, title]) => this.chip(title, "document", () => this.documents.delete(id))),
    ];
    return h(
      "div",
      { class: "scope" },
      h("span", { class: "muted" }, "Look in"),
      chips.length ? chips : h("span", { class: "chip still" }, "all documents"),
      h("button", { type: "button", class: "quiet", onclick: () => this.open() }, "Choose…"),
    );
  }

  chip(name, kind, remove) {
    const gone = () => {
      remove();
      this.changed();
    };
    return h("button", { type: "button", class: "chip", title: name, "aria-label": `Leave out the ${kind} ${name}`, onclick: gone }, h("span", { class: "cut" }, name), icon("close"));
  }

  open() {
    const list = h("div", { class: "choices", role: "group", "aria-label": "Documents" });
    const sources = h("div", { class: "choices", role: "group", "aria-label": "Sources" });
    const find = h("input", { type: "search", "aria-label": "Find a document", placeholder: "Find a document by its title or path", oninput: settled(() => this.list(list, find.value)) });
    const dialog = h(
      "dialog",
      { class: "panel", "aria-label": "Where to look" },
      h("div", { class: "row apart" }, h("h2", {}, "Where to look"), h("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => dialog.close() }, icon("close"))),
      h("p", { class: "muted" }, "Choose sources, or single documents. With nothing chosen, all documents are used."),
      h("h3", {}, "Sources"),
      sources,
      h("h3", {}, "Documents"),
      find,
      list,
      h("div", { class: "row end" }, h("button", { type: "button", onclick: () => this.clear(dialog) }, "All documents"), h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Done")),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      this.changed();
    });
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    document.body.append(dialog);
    dialog.showModal();
    this.ofSources(sources, list, find);
    this.list(list, "");
  }

  clear(dialog) {
    this.sources.clear();
    this.documents.clear();
    dialog.close();
  }

  async ofSources(box, list, find) {
    try {
      const { sources } = await get("/rag/stats");
      const toggle = (name) => (event) => {
        if (event.target.checked) this.sources.add(name);
        else this.sources.delete(name);
        this.documents.clear();
        this.list(list, find.value);
      };
      fill(
        box,
        sources.length ? sources.slice(0, 200).map((each) => choice(each.source, plural(each.documents, "document"), this.sources.has(each.source), toggle(each.source))) : empty("There are no documents yet."),
      );
      this.sourceBox = box;
    } catch (error) {
      fill(box, failure(error));
    }
  }

  async list(box, q) {
    try {
      const { items } = await get("/rag/documents", { q, sort: "title", limit: 50, status: STANDINGS.searchable });
      const toggle = (each) => (event) => {
        if (event.target.checked) this.documents.set(each.documentId, each.title || each.path);
        else this.documents.delete(each.documentId);
        this.sources.clear();
        for (const input of this.sourceBox?.querySelectorAll("input") ?? []) input.checked = false;
      };
      fill(
        box,
        items.length ? items.map((each) => choice(each.title || each.path, `${each.source} / ${each.path}`, this.documents.has(each.documentId), toggle(each))) : empty(q ? "No document has these words in its title or path." : "There are no documents yet."),
      );
    } catch (error) {
      fill(box, failure(error));
    }
  }
}

function choice(name, about, checked, onchange) {
  return h("label", { class: "choice" }, h("input", { type: "checkbox", checked, onchange }), h("span", { class: "cut", dir: "auto" }, name), h("span", { class: "muted cut", dir: "auto" }, about));
}
