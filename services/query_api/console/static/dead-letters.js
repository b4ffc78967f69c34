// Dead letters: records that a stage could not take, why, and what becomes of them.

import { get, post } from "./api.js";
import { bytes, empty, failure, fill, h, icon, plural, sure, when } from "./dom.js";

const OUTCOMES = { redriven: "It is processed again", dropped: "Dropped", superseded: "Overtaken by something newer", unknown: "Already settled" };

export default function deadLetters(main, app) {
  const list = h("div", { class: "list" });
  const told = h("p", { class: "muted lead" }, "A record that a stage can't process becomes a dead letter with its reason, and processing goes on.");
  const stage = h("select", { "aria-label": "Stage", onchange: () => change() }, h("option", { value: "" }, "All stages"));
  const all = h("div", { class: "row" });
  let shown = [];
  let cursor = null;
  stage.value = "";

  const change = () => {
    app.remember({ stage: stage.value });
    load();
  };
  const load = async (more = false) => {
    list.setAttribute("aria-busy", "true");
    try {
      const page = await get("/ops/dead-letters", { stage: stage.value, limit: 50, cursor: more ? cursor : "" });
      if (app.signal.aborted) return;
      shown = more ? [...shown, ...page.items] : page.items;
      cursor = page.nextCursor;
      app.counted();
      for (const name of new Set(shown.map((each) => each.stage))) if (![...stage.options].some((option) => option.value === name)) stage.append(h("option", { value: name }, name));
      fill(all, shown.length > 1 ? h("button", { type: "button", onclick: () => every(page.total) }, icon("redo"), `Try all ${page.total} again`) : null);
      fill(
        list,
        shown.length ? h("ul", { class: "letters" }, shown.map((each) => letter(each, app, () => load()))) : empty("There are no dead letters.", "Every stage could process every record."),
        cursor ? h("button", { type: "button", class: "more", onclick: () => load(true) }, "Show more") : null,
      );
    } catch (error) {
      fill(list, failure(error, () => load()));
    } finally {
      list.removeAttribute("aria-busy");
    }
  };
  const every = async (total) => {
    const chosen = stage.value ? { stage: stage.value } : { all: true };
    if (!confirm(`Try ${plural(total, "record")} again?`)) return;
    try {
      let next = {};
      let sent = 0;
      do {
        const page = await post("/ops/dead-letters/redrive", { ...chosen, ...next });
        sent += page.items.length;
        next = page.nextCursor ? { cursor: page.nextCursor } : null;
      } while (next);
      app.say(`${plural(sent, "record")} processed again.`);
    } catch (error) {
      app.say(error.sentence ?? String(error), { bad: true });
    }
    load();
  };
  fill(main, h("section", { class: "dead-letters" }, h("div", { class: "row apart" }, h("h1", {}, "Dead letters"), all), told, h("div", { class: "toolbar" }, stage), list));
  const wanted = app.params.get("stage");
  if (wanted) {
    stage.append(h("option", { value: wanted }, wanted));
    stage.value = wanted;
  }
  load();
}

function letter(each, app, reload) {
  const record = h("div", { class: "record" });
  const settle = async (how, body) => {
    try {
      const { items } = await post(`/ops/dead-letters/${how}`, body);
      const settled = items[0];
      app.say(`${OUTCOMES[settled?.outcome] ?? settled?.outcome ?? "Done"}${settled?.sentence ? `: ${settled.sentence}` : "."}`);
    } catch (error) {
      app.say(error.sentence ?? String(error), { bad: true });
    }
    reload();
  };
  const drop = sure("trash", "Drop", "Drop it for good?", () => settle("drop", { ids: [each.id] }), "danger");
  const look = h("details", { class: "why" }, h("summary", {}, "The record"), record);
  look.addEventListener("toggle", () => look.open && !record.hasChildNodes() && open(record, each));
  const name = each.path ?? each.documentId ?? each.id;
  return h(
    "li",
    { class: "letter card" },
    h("div", { class: "row apart top-aligned" }, h("h2", { dir: "auto" }, each.documentId && each.path ? h("a", { href: `/documents/${each.documentId}` }, name) : name), h("span", { class: "badge failed" }, each.code.toLowerCase().replaceAll("_", " "))),
    h("p", { class: "reason", dir: "auto" }, each.error),
    h("p", { class: "where muted" }, [`stage ${each.stage}`, each.source ? `source ${each.source}` : null, `${each.topic} ${each.partition}/${each.offset}`, bytes(each.size)].filter(Boolean).map((text) => h("span", { dir: "auto" }, text)), h("span", {}, when(each.lastSeen)), each.redrives ? h("span", {}, `tried again ${plural(each.redrives, "time")}`) : null),
    look,
    h("div", { class: "row" }, h("button", { type: "button", class: "primary", onclick: () => settle("redrive", { ids: [each.id] }) }, icon("redo"), "Try again"), drop),
  );
}

async function open(box, each) {
  fill(box, h("p", { class: "muted" }, "Reading…"));
  try {
    const { record } = await get(`/ops/dead-letters/${encodeURIComponent(each.id)}`);
    const shown = (part) => part?.text ?? (part?.base64 ? `base64: ${part.base64}` : "");
    const value = record.blob ? `A blob of ${bytes(record.blob.size)}` : shown(record.value);
    fill(
      box,
      h("dl", { class: "pairs" }, h("div", {}, h("dt", {}, "Time"), h("dd", {}, when(record.time))), record.key ? h("div", {}, h("dt", {}, "Key"), h("dd", {}, h("code", {}, shown(record.key)))) : null, record.headers.map(([name, part]) => h("div", {}, h("dt", {}, name), h("dd", {}, h("code", {}, shown(part)))))),
      value ? h("pre", { tabindex: "0" }, h("code", {}, value.length > 20_000 ? `${value.slice(0, 20_000)}…` : value)) : h("p", { class: "muted" }, "The record has no value: it is a deletion."),
      h("p", {}, h("a", { href: `/ops/dead-letters/${encodeURIComponent(each.id)}/record`, download: "" }, "Download the value")),
    );
  } catch (error) {
    fill(box, failure(error, () => open(box, each)));
  }
}
