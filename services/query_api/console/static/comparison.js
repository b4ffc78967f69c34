// What two generations find for the same questions, have and cost.

import { bytes, count, h, plural, span } from "./dom.js";

export function comparison(found) {
  const sides = [found.serving, found.other];
  const rows = [
    ["Model", (side) => side.model],
    ["Chunk", (side) => `${count(side.chunkSize)} ${side.chunkUnit}`],
    ["Documents", (side) => count(side.documents)],
    ["Chunks", (side) => count(side.chunks)],
    [`nDCG@${found.topK}`, (side) => side.ndcg?.toFixed(3)],
    ["A search", (side) => span(side.searchMs)],
    ["Texts embedded", (side) => count(side.embedded)],
    ["Vectors copied", (side) => count(side.copied)],
    ["Built in", (side) => (known(side.buildSeconds) ? span(1000 * side.buildSeconds) : null)],
    ["Disk", (side) => (known(side.diskBytes) ? bytes(side.diskBytes) : null)],
  ];
  const told = rows.map(([name, of]) => [name, sides.map(of)]).filter(([, values]) => values.some(known));
  return h(
    "section",
    { class: "card comparison" },
    h("h2", {}, "Comparison"),
    h("p", { class: "muted" }, `${plural(found.questions, "question")}${found.drawn ? ", drawn from titles and headings" : ""}: ${percent(found.overlap)} of the documents found are the same.`),
    found.notes.map((note) => h("p", { class: "muted" }, note)),
    h("table", {}, h("thead", {}, h("tr", {}, h("td", {}), sides.map((side) => h("th", { scope: "col" }, h("code", {}, side.id))))), h("tbody", {}, told.map(([name, values]) => h("tr", {}, h("th", { scope: "row" }, name), values.map((value) => h("td", {}, known(value) ? value : "–")))))),
    found.changed.length ? h("details", { class: "why" }, h("summary", {}, "What changed most"), h("ul", {}, found.changed.map(changed))) : null,
  );
}

function changed(each) {
  const [was, is] = [each.first ?? "nothing", each.firstOther ?? "nothing"];
  return h("li", { dir: "auto" }, `${each.question}: ${percent(each.overlap)} the same, first is ${was === is ? is : `${is} instead of ${was}`}`);
}

function known(value) {
  return value !== null && value !== undefined;
}

function percent(share) {
  return `${Math.round(100 * share)} %`;
}
