// Edits a document's title, description and tags in place, where the server can change them without the file.

import { get, request } from "./api.js";
import { fill, h, icon, standing } from "./dom.js";

let known = null; // whether the server has the route

async function possible() {
  known ??= get("/openapi.json").then(
    (api) => Object.entries(api.paths ?? {}).some(([path, item]) => /^\/rag\/documents\/\{[^}/]+\}$/.test(path) && item.patch),
    () => false,
  );
  return known;
}

/** Return the button that opens the editor; it stays empty where there is nothing to edit with. */
export function editor(app, found, own, again) {
  const box = h("div", { class: "editor" });
  if (!app.may("ingest") || standing(found) !== "searchable") return box;
  possible().then((can) => can && fill(box, h("button", { type: "button", onclick: () => open(box, app, found, again) }, icon("edit"), "Edit")));
  return box;
}

function open(box, app, found, again) {
  const title = h("input", { id: "edit-title", value: found.title ?? "", dir: "auto" });
  const tags = h("input", { id: "edit-tags", value: found.tags.join(", "), dir: "auto" });
  const description = h("textarea", { id: "edit-description", rows: "3", value: found.description ?? "", dir: "auto" });
  const said = h("p", { role: "alert", class: "error" });
  const form = h(
    "form",
    {},
    h("label", { for: "edit-title" }, "Title"),
    title,
    h("label", { for: "edit-tags" }, "Tags, a comma between"),
    tags,
    h("label", { for: "edit-description" }, "Description"),
    description,
    said,
    h("div", { class: "row end" }, h("button", { type: "button", onclick: () => fill(box, editor(app, found, null, again)) }, "Cancel"), h("button", { class: "primary" }, "Save")),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = {};
    const wanted = { title: title.value.trim() || null, description: description.value.trim() || null, tags: tags.value.split(",").map((tag) => tag.trim()).filter(Boolean) };
    const before = { title: found.title ?? null, description: found.description ?? null, tags: found.tags };
    for (const [name, value] of Object.entries(wanted)) if (JSON.stringify(value) !== JSON.stringify(before[name])) body[name] = value;
    if (!Object.keys(body).length) return fill(box, editor(app, found, null, again));
    try {
      await request("PATCH", `/rag/documents/${encodeURIComponent(found.documentId)}`, { body, headers: found.etag ? { "If-Match": found.etag } : {} });
      app.say("Saved. Nothing had to be embedded again.");
      return again();
    } catch (error) {
      return fill(said, error.status === 412 ? "Somebody has changed the document meanwhile. Open it again and repeat the change." : error.sentence);
    }
  });
  fill(box, form);
  title.focus();
}
