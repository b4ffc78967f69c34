// Takes documents away, after 8 seconds in which the user can undo it. Nothing looks deleted before the server says so.

import { request } from "./api.js";
import { h } from "./dom.js";

const GRACE_MS = 8000;
const waiting = new Map(); // by document id

/** Return whether the document is about to be deleted. */
export function leaving(id) {
  return waiting.has(id);
}

/** Delete the document in 8 seconds. `changed("leaving" | "kept" | "deleted" | "failed")` is told how it goes. */
export function remove(app, { documentId: id, title, path }, changed) {
  if (waiting.has(id)) return;
  const name = title || path;
  const left = h("span", { class: "figure" }, String(GRACE_MS / 1000));
  const back = h("button", { type: "button", class: "strong" }, "Undo");
  const away = app.say(h("span", { class: "cut" }, "“", name, "”"), h("span", { class: "fixed" }, " will be deleted in ", left, " s. "), back, { stay: true });
  const began = Date.now();
  const tick = setInterval(() => (left.textContent = String(Math.max(0, Math.ceil((GRACE_MS - (Date.now() - began)) / 1000)))), 250);
  const stop = () => {
    clearTimeout(timer);
    clearInterval(tick);
    waiting.delete(id);
    away();
  };
  const send = async (options) => {
    stop();
    try {
      await request("DELETE", `/rag/documents/${encodeURIComponent(id)}`, options);
      changed("deleted");
      app.say(`“${short(name)}” is deleted.`);
    } catch (error) {
      changed("failed");
      app.say(`“${short(name)}” was not deleted: ${error.sentence ?? error}`, { bad: true });
    }
  };
  const timer = setTimeout(send, GRACE_MS);
  waiting.set(id, send);
  back.addEventListener("click", () => {
    stop();
    changed("kept");
    app.say(`“${short(name)}” stays.`);
  });
  changed("leaving");
}

function short(name) {
  return name.length > 60 ? `${name.slice(0, 59)}…` : name;
}

// Whoever leaves the page has said what they want; the request outlives it.
addEventListener("pagehide", () => {
  for (const send of waiting.values()) send({ keepalive: true, headers: { Prefer: "respond-async" } });
});
