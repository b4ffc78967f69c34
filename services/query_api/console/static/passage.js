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
      found.score === undefined ? null : meter(found.score, found.threshold),
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

const WORDS = ["not relevant", "weak", "fair", "strong"];

/** Return a score from 0 to 1 as a word with a small bar; below `threshold`, answers don't use the passage. */
export function meter(score, threshold = 0) {
  const step = score < threshold ? 0 : score < 0.1 ? 1 : score < 0.5 ? 2 : 3;
  const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("span", {}));
  bar.firstChild.style.width = `${Math.round((100 * step) / 3)}%`;
  return h("span", { class: "meter", title: `Score ${score.toFixed(2)}: how likely the passage answers, from 0 to 1` }, bar, h("span", {}, WORDS[step]));
}

