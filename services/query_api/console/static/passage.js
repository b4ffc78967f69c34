// A passage as results and answers show it.

import { h } from "./dom.js";
import { prose } from "./prose.js";

const MARKDOWN = new Set(["doc", "docx", "eml", "epub", "html", "ipynb", "mbox", "md", "msg", "odp", "odt", "ppt", "pptx", "rtf", "xml", "zip"]);

/** Return whether a document's text is Markdown. */
export function isMarkdown(type) {
  return MARKDOWN.has(type);
}

/** Return a card of a passage: `{title, href, score, text, metadata}`. */
export function passage(found, { number = null, words = [], below = [] } = {}) {
  const { metadata } = found;
  return h(
    "article",
    { class: "passage" },
    h(
      "div",
      { class: "row apart top-aligned" },
      h(
        "h3",
        {},
        number ? h("span", { class: "number", "aria-hidden": "true" }, String(number)) : null,
        h("a", { href: found.href, dir: "auto", title: found.title }, found.title),
      ),
      found.score === undefined ? null : meter(found.score),
    ),
    h("p", { class: "where muted" }, where(metadata)),
    found.text ? h("div", { class: "text" }, prose([metadata.tableHeader, found.text].filter(Boolean).join("\n"), { words, markdown: isMarkdown(metadata.documentType) })) : null,
    below,
  );
}

/** Return where in its document a passage stands. */
export function where(metadata) {
  const section = (metadata.sectionTitle ?? "").split(" > ").filter((each) => each && each !== metadata.title);
  return [
    h("span", { dir: "auto" }, `${metadata.source} / ${metadata.path}`),
    section.length ? h("span", { dir: "auto" }, section.join(" › ")) : null,
    metadata.pageNumber ? h("span", {}, `page ${metadata.pageNumber}`) : null,
  ];
}

/** Return a score from 0 to 1 as a small bar with its number. */
export function meter(score) {
  const value = Math.max(0, Math.min(1, score));
  const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("span", {}));
  bar.firstChild.style.width = `${Math.round(100 * value)}%`;
  return h("span", { class: "meter", title: "How well the passage fits, from 0 to 1" }, bar, h("span", { class: "figure" }, h("span", { class: "hidden" }, "score "), value.toFixed(2)));
}

