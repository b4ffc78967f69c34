// Edits what describes a document in place: the file isn't needed.

import { request } from "./api.js";
import { fill, h, icon, standing } from "./dom.js";

/** Return the button that opens the editor; `again` shows the document anew after a change. */
export function editor(app, found, again) {
  const box = h("div", { class: "editor" });
  if (app.may("ingest") && standing(found) === "searchable") closed(box, app, found, again);
  return box;
}

function closed(box, app, found, again) {
  return fill(box, h("button", { type: "button", onclick: () => open(box, app, found, again) }, icon("edit"), "Edit"));
}

function open(box, app, found, again) {
  const title = h("input", { id: "edit-title", value: found.title ?? "", dir: "auto" });
  const description = h("textarea", { id: "edit-description", rows: "3", dir: "auto" });
  description.value = found.description ?? "";
  const tags = h("input", { id: "edit-tags", value: found.tags.join(", "), dir: "auto" });
  const metadata = new Fields(found.metadata ?? {});
  const said = h("p", { role: "alert", class: "error" });
  const save = h("button", { class: "primary" }, "Save");
  const form = h(
    "form",
    {},
    h("label", { for: "edit-title" }, "Title"),
    title,
    h("label", { for: "edit-description" }, "Description"),
    description,
    h("label", { for: "edit-tags" }, "Tags, separated by commas"),
    tags,
    metadata.element,
    said,
    h("div", { class: "row end" }, h("button", { type: "button", onclick: () => closed(box, app, found, again) }, "Cancel"), save),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = changes(found, {
      title: title.value.trim(),
      description: description.value.trim(),
      tags: tags.value.split(",").map((tag) => tag.trim()).filter(Boolean),
      metadata: metadata.value,
    });
    if (!Object.keys(body).length) return closed(box, app, found, again);
    save.disabled = true;
    try {
      await request("PATCH", `/rag/documents/${encodeURIComponent(found.documentId)}`, { body, headers: found.etag ? { "If-Match": found.etag } : {} });
      app.say("Saved.");
      return again();
    } catch (error) {
      save.disabled = false;
      const overtaken = "Somebody else has changed the document. Open it again and repeat your change.";
      return fill(said, error.status === 412 ? overtaken : (error.sentence ?? String(error)));
    }
  });
  fill(box, form);
  title.focus();
}

/** Return what differs: what is left out stays as it is. */
function changes(found, wanted) {
  const body = {};
  for (const name of ["title", "description"]) if (wanted[name] !== (found[name] ?? "").trim()) body[name] = wanted[name] || null;
  if (JSON.stringify(wanted.tags) !== JSON.stringify(found.tags)) body.tags = wanted.tags;
  if (JSON.stringify(wanted.metadata) !== JSON.stringify(found.metadata ?? {})) body.metadata = wanted.metadata;
  return body;
}

/** Rows of metadata: a name and a value each. A value is text unless it is written as JSON: 1900, true, ["a"]. */
class Fields {
  constructor(metadata) {
    this.rows = h("div", { class: "fields" });
    for (const [name, value] of Object.entries(metadata)) this.add(name, shown(value));
    const more = h("button", { type: "button", onclick: () => this.add("", "").focus() }, "Add a field");
    this.element = h("fieldset", {}, h("legend", {}, "Metadata"), this.rows, more);
  }

  add(name, value) {
    const key = h("input", { "aria-label": "Name", value: name, dir: "auto" });
    const row = h(
      "div",
      { class: "field row" },
      key,
      h("input", { "aria-label": "Value", value, dir: "auto" }),
      h("button", { type: "button", class: "quiet", "aria-label": "Remove this field", title: "Remove this field", onclick: () => row.remove() }, icon("trash")),
    );
    this.rows.append(row);
    return key;
  }

  get value() {
    const pairs = [...this.rows.children].map((row) => [...row.querySelectorAll("input")].map((input) => input.value.trim()));
    return Object.fromEntries(pairs.filter(([name]) => name).map(([name, value]) => [name, read(value)]));
  }
}

/** Return the value as it is edited: `read` gives it back. */
function shown(value) {
  return typeof value === "string" && read(value) === value ? value : JSON.stringify(value);
}

function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
