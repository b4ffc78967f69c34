// Overview: how many documents are in which state, how fast they come, and whether every part works.

import { get } from "./api.js";
import { bytes, count, failure, fill, h, icon, plural, s, span, standingCount } from "./dom.js";

const AGAIN_MS = 5000;
const SAMPLES = 60;
const STAGES = { ingest: "Reading", chunk: "Chunking", embed: "Embedding" };
const NAMES = { store: "Store", index: "Index", log: "Log", embedder: "Embedding model", backlog: "Backlog", chat: "Chat model" };

export default function overview(main, app) {
  const box = h("div", { "aria-busy": "true" }, h("p", { class: "muted" }, "Counting…"));
  fill(main, h("section", {}, h("h1", {}, "Overview"), box));
  const unread = []; // as seen since this view was opened
  let timer = 0;
  const load = async () => {
    try {
      const [stats, ready, served] = await Promise.all([get("/rag/stats"), health(), app.may("operator") ? figures() : null]);
      if (app.signal.aborted) return;
      if (stats.pipeline) {
        unread.push(stats.pipeline.stages.reduce((sum, stage) => sum + (stage.unread ?? 0), 0));
        if (unread.length > SAMPLES) unread.shift();
      }
      fill(box, tiles(stats), h("div", { class: "grid" }, rate(stats), stats.pipeline ? lag(stats.pipeline, unread) : null, served ? card("Served", served.map((line) => h("p", { class: "muted" }, line)), h("p", { class: "muted" }, "Since the process that answered was started.")) : null, parts(ready), stats.pipeline?.disk ? disk(stats.pipeline.disk) : null, sources(stats)));
    } catch (error) {
      if (!app.signal.aborted) fill(box, failure(error, load));
    } finally {
      box.removeAttribute("aria-busy");
      clearTimeout(timer);
      if (!app.signal.aborted) timer = setTimeout(load, AGAIN_MS);
    }
  };
  app.signal.addEventListener("abort", () => clearTimeout(timer));
  load();
}

/** Return what readiness says; a 503 says it as well. */
async function health() {
  const response = await fetch("/readyz", { headers: { Accept: "application/json" } });
  return response.json();
}

/** Return what the asked process has served since its start, as sentences. */
async function figures() {
  const response = await fetch("/metrics").catch(() => null);
  if (!response?.ok) return null;
  const samples = [...(await response.text()).matchAll(/^(sluice_(?:requests_total|search_seconds_bucket))\{(.*)\} (\S+)$/gm)].map(([, name, labels, value]) => [name, labels, Number(value)]);
  const sum = (fits) => samples.filter(fits).reduce((all, [, , value]) => all + value, 0);
  const requests = sum(([name]) => name === "sluice_requests_total");
  const errors = sum(([name, labels]) => name === "sluice_requests_total" && /status="5/.test(labels));
  const upto = (le) => sum(([name, labels]) => name === "sluice_search_seconds_bucket" && labels.includes(`le="${le}"`));
  const bounds = [...new Set(samples.map(([, labels]) => /le="([\d.]+)"/.exec(labels)?.[1]).filter(Boolean))].sort((a, b) => a - b);
  const searches = upto("+Inf");
  const within = (share) => bounds.find((le) => upto(le) >= share * searches);
  const time = (le) => (le === undefined ? "longer" : `within ${span(1000 * le)}`);
  return [`${plural(requests, "request")}, ${count(errors)} of them failed`, searches ? `${plural(searches, "search", "searches")}: half ${time(within(0.5))}, 95 % ${time(within(0.95))}` : "No search yet"];
}

function tiles({ documents, chunks }) {
  const stand = (name) => standingCount(documents, name);
  const tile = (name, number, link, kind) => h("a", { class: `tile ${kind}`, href: link }, h("span", { class: "big" }, count(number)), h("span", { class: "muted" }, name));
  return h(
    "div",
    { class: "tiles" },
    tile("searchable", stand("searchable"), "/documents?standing=searchable", "searchable"),
    tile("processing", stand("processing"), "/documents?standing=processing", stand("processing") ? "processing" : ""),
    tile("failed", stand("failed"), "/documents?standing=failed", stand("failed") ? "failed" : ""),
    tile("deleted", stand("deleted"), "/documents?standing=deleted", ""),
    h("div", { class: "tile" }, h("span", { class: "big" }, count(chunks)), h("span", { class: "muted" }, "chunks")),
  );
}

function card(title, ...children) {
  return h("section", { class: "card" }, h("h2", {}, title), children);
}

function rate({ recent, bucketSeconds }) {
  const most = Math.max(1, ...recent.map((each) => each.documents));
  const total = recent.reduce((sum, each) => sum + each.documents, 0);
  const failed = recent.reduce((sum, each) => sum + each.failed, 0);
  const [width, height, wide] = [20, 72, recent.length * 20];
  const bars = recent.flatMap((each, number) => {
    const tall = each.documents ? Math.max(2, (height * each.documents) / most) : 1;
    const bad = (tall * each.failed) / Math.max(1, each.documents);
    const about = `${new Date(each.since).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })}: ${plural(each.documents, "document")}`;
    return [
      s("rect", { class: each.documents ? "good" : "none", x: number * width + 2, y: height - tall, width: width - 4, height: tall, rx: 2 }, s("title", {}, about)),
      bad ? s("rect", { class: "bad", x: number * width + 2, y: height - bad, width: width - 4, height: bad, rx: 2 }) : null,
    ];
  });
  const minutes = Math.round((recent.length * bucketSeconds) / 60);
  const about = `${plural(total, "document")} in the last ${minutes} minutes${failed ? `, ${count(failed)} of them failed` : ""}`;
  return card("Arriving", h("p", { class: "muted" }, about), s("svg", { class: "chart", viewBox: `0 0 ${wide} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": about }, bars), h("p", { class: "row apart muted axis" }, h("span", {}, `${minutes} min ago`), h("span", {}, "now")));
}

function lag({ stages }, seen) {
  const now = seen.at(-1) ?? 0;
  const most = Math.max(1, ...seen);
  const [wide, height] = [240, 40];
  const points = seen.map((value, number) => `${((SAMPLES - seen.length + number) * wide) / (SAMPLES - 1)},${height - 1 - ((height - 2) * value) / most}`).join(" ");
  const past = seen.length > 1 ? (seen[0] - now) / (seen.length - 1) : 0; // records a look
  const left = past > 0 && now ? `, about ${span((AGAIN_MS * now) / past)} left` : "";
  const about = now ? `${plural(now, "record")} still to be processed${left}` : "Every record is processed";
  return card(
    "Waiting",
    h("p", { class: "muted" }, about),
    seen.some(Boolean) && s("svg", { class: "chart line", viewBox: `0 0 ${wide} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${about}, since this page was opened` }, s("polyline", { points, "vector-effect": "non-scaling-stroke" })),
    h("dl", { class: "pairs" }, stages.map((stage) => h("div", {}, h("dt", { title: stage.topic }, stage.stage), h("dd", {}, stage.unread === null ? "unknown" : count(stage.unread))))),
  );
}

function parts(ready) {
  const checks = Object.entries(ready.checks ?? {});
  const healthy = checks.every(([, trouble]) => !trouble || trouble === "ok");
  const line = ([name, trouble]) => {
    const well = !trouble || trouble === "ok";
    return h("li", { class: well ? "well" : "ill" }, well ? icon("check") : icon("close"), h("span", { class: "grow" }, part(name), well ? null : h("span", { class: "error" }, ` ${trouble}`)), h("span", { class: "muted" }, well ? "works" : "trouble"));
  };
  const said = ready.status === "ready" && healthy ? "Everything works" : "Something needs attention";
  return card("Parts", h("p", { class: "muted" }, said), h("ul", { class: "health" }, checks.map(line)));
}

/** Return what people call a part; a stage is named by its group and topic. */
function part(name) {
  const [stage, topic] = name.split(": ");
  return STAGES[stage] ? h("span", { title: topic }, `${STAGES[stage]} stage`) : (NAMES[name] ?? name);
}

function disk({ folder, free, total }) {
  const used = total ? (100 * (total - free)) / total : 0;
  const about = `${bytes(folder)} of data; ${bytes(free)} of ${bytes(total)} free`;
  return card("Disk", h("p", { class: "muted" }, about), s("svg", { class: "chart flat", viewBox: "0 0 100 4", preserveAspectRatio: "none", role: "img", "aria-label": about }, s("rect", { class: "none", width: 100, height: 4 }), s("rect", { class: used > 90 ? "bad" : "good", width: used, height: 4 })));
}

function sources({ sources: list }) {
  if (!list.length) return null;
  const most = list[0].documents;
  return card(
    "Sources",
    h(
      "ul",
      { class: "sources-list" },
      list.slice(0, 12).map((each) => {
        const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("span", {}));
        bar.firstChild.style.width = `${Math.max(2, (100 * each.documents) / most)}%`;
        return h("li", {}, h("a", { class: "cut", dir: "auto", href: `/documents?source=${encodeURIComponent(each.source)}` }, each.source), bar, h("span", { class: "figure" }, count(each.documents)));
      }),
    ),
  );
}
