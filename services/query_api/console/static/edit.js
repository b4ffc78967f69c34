// Edits a document's title and tags in place: the file isn't needed, and nothing is embedded again.

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
  const tags = h("input", { id: "edit-tags", value: found.tags.join(", "), dir: "auto" });
  const said = h("p", { role: "alert", class: "error" });
  const save = h("button", { class: "primary" }, "Save");
  const form = h(
    "form",
    {},
    h("label", { for: "edit-title" }, "Title"),
    title,
    h("label", { for: "edit-tags" }, "Tags, separated by commas"),
    tags,
    said,
    h("div", { class: "row end" }, h("button", { type: "button", onclick: () => closed(box, app, found, again) }, "Cancel"), save),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = changes(found, title.value.trim(), tags.value.split(",").map((tag) => tag.trim()).filter(Boolean));
    if (!Object.keys(body).length) return closed(box, app, found, again);
    save.disabled = true;
    try {
      await request("PATCH", `/rag/documents/${encodeURIComponent(found.documentId)}`, { body, headers: found.etag ? { "If-Match": found.etag } : {} });
      app.say("Saved. Nothing had to be embedded again.");
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
function changes(found, title, tags) {
  const body = {};
  if (title !== (found.title ?? "")) body.title = title || null;
  if (JSON.stringify(tags) !== JSON.stringify(found.tags)) body.tags = tags;
  return body;
}
