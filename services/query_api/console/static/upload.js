// Adds files, each with its progress: on its way, read, embedded, searchable.

import { monitor, Problem, watch } from "./api.js";
import { bytes, fill, h, icon, span } from "./dom.js";

const AT_ONCE = 3; // a browser opens six connections to a server; the page needs some itself
const STEPS = { received: "On the log", extracted: "Read", embedding: "Embedding", searchable: "Searchable", deleted: "Deleted", failed: "Failed" };

/** A list of uploads; `done` is called after each that ended. */
export class Uploads {
  constructor(done) {
    this.done = done;
    this.queue = [];
    this.running = 0;
    this.element = h("ul", { class: "uploads", "aria-label": "Uploads", "aria-live": "polite" });
  }

  /** Add files: `{file, path}`. What describes a document stays where `keep` is set. */
  add(files, source, keep = false) {
    for (const { file, path } of files) {
      const upload = new Upload(file, path, source, keep);
      this.element.prepend(upload.element);
      this.queue.push(upload);
    }
    this.next();
  }

  /** Leave out what has ended. */
  clear() {
    if (!this.running) fill(this.element);
  }

  next() {
    while (this.running < AT_ONCE && this.queue.length) {
      this.running += 1;
      this.queue.shift().run().finally(() => {
        this.running -= 1;
        this.done();
        this.next();
      });
    }
  }
}

class Upload {
  constructor(file, path, source, keep) {
    this.file = file;
    this.keep = keep;
    this.path = path;
    this.source = source;
    this.state = h("span", { class: "muted" }, "Waiting");
    this.bar = h("progress", { max: "100", value: 0, "aria-label": `Progress of ${path}` });
    this.name = h("span", { class: "cut", dir: "auto", title: path }, path);
    this.element = h("li", {}, icon("documents"), h("div", { class: "grow" }, h("div", { class: "row apart" }, this.name, h("span", { class: "muted fixed" }, bytes(file.size))), this.bar, this.state));
  }

  async run() {
    const began = performance.now();
    try {
      this.show("Uploading", 2);
      const { id, events } = await this.send();
      this.link(id);
      this.show(STEPS.received, 45);
      const last = await watch(events, (told) => this.step(told));
      if (last.step === "failed") throw new Problem(422, { detail: last.error ?? "the document could not be read" });
      this.show(`Searchable after ${span(performance.now() - began)}${last.status === "unchanged" ? ": it was already indexed" : ""}`, 100);
      this.element.classList.add("good");
    } catch (error) {
      this.element.classList.add("bad");
      this.bar.remove();
      this.state.textContent = (error.message.startsWith(this.path) ? error.message : error.sentence) ?? String(error); // a file keeps its name
    }
  }

  step(told) {
    if (told.step === "embedding" && told.chunkCount) {
      this.show(`Embedding ${told.chunksEmbedded ?? 0} of ${told.chunkCount} chunks`, 60 + (38 * (told.chunksEmbedded ?? 0)) / told.chunkCount);
    } else if (told.step in STEPS) this.show(STEPS[told.step], { received: 45, extracted: 60 }[told.step] ?? this.bar.value);
  }

  show(text, percent) {
    this.state.textContent = text;
    this.bar.value = percent;
  }

  link(id) {
    fill(this.name, h("a", { href: `/documents/${id}` }, this.path));
  }

  /** Send the file; fetch tells nothing of how far a body is, so the older request does it. */
  send() {
    return new Promise((resolve, reject) => {
      const form = new FormData();
      form.append("source", this.source);
      form.append("path", this.path);
      if (this.keep) form.append("keep", "title,description,tags,metadata");
      form.append("file", this.file);
      const request = new XMLHttpRequest();
      request.open("POST", "/rag/ingest/upload");
      request.setRequestHeader("Prefer", "respond-async");
      request.setRequestHeader("Accept", "application/json");
      request.upload.onprogress = (event) => event.lengthComputable && this.show(`Uploading ${Math.round((100 * event.loaded) / event.total)} %`, (40 * event.loaded) / event.total);
      request.onerror = () => reject(new Problem(0, { detail: "the server can't be reached, or refused the file" }));
      request.onload = () => {
        let told = null;
        try {
          told = JSON.parse(request.responseText);
        } catch {
          // what isn't JSON says nothing
        }
        if (request.status >= 300) return reject(new Problem(request.status, told));
        const events = monitor(request.getResponseHeader("Link")) ?? `/rag/documents/${told.documentId}/events`;
        return resolve({ id: told.documentId, events });
      };
      request.send(form);
    });
  }
}

/** Return the files of a drop as `{file, path}`, folders walked through. */
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  const found = [];
  const walk = async (entry) => {
    if (entry.isFile) found.push({ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path: entry.fullPath.replace(/^\//, "") });
    else {
      const reader = entry.createReader();
      for (;;) {
        const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
        if (!some.length) break;
        for (const each of some) if (!each.name.startsWith(".")) await walk(each);
      }
    }
  };
  for (const entry of entries) await walk(entry);
  return found;
}
