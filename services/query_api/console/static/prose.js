// Shows text that may be Markdown. It builds elements out of text nodes, so whatever a document says stays text.

import { h, marked } from "./dom.js";

const FENCE = /^\s*(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ROW = /^\s*\|.*$/;
const DIVIDER = /^\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*$/;
const QUOTE = /^\s{0,3}>\s?(.*)$/;

/** Return the elements of a text. `words` are marked; `cite(n)` makes the element of a `[n]`, or null.
 *
 * `link(words, address)` makes the element of a link, or null. `breaks`: a line break in a paragraph is one; Markdown's
 * own rule is that it is a space. */
export function prose(text, { words = [], cite = null, link = null, markdown = true, breaks = false } = {}) {
  const inline = (part) => spans(breaks ? part : part.replace(/(?<! {2}|\\)\n/g, " "), { words, cite, link, markdown });
  const verbatim = (part) => spans(part, { words, cite, link, markdown });
  if (!markdown) return [h("p", { class: "plain", dir: "auto" }, verbatim(text))];
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    if (fence) {
      const code = [];
      at += 1;
      while (at < lines.length && !lines[at].trim().startsWith(fence[1])) code.push(lines[at++]);
      at += 1;
      blocks.push(h("pre", { tabindex: "0" }, h("code", {}, marked(code.join("\n"), words))));
    } else if (!line.trim()) {
      at += 1;
    } else if (HEADING.test(line)) {
      const [, marks, title] = HEADING.exec(line);
      blocks.push(h("p", { class: `heading h${marks.length}`, dir: "auto" }, inline(title)));
      at += 1;
    } else if (RULE.test(line)) {
      blocks.push(h("hr"));
      at += 1;
    } else if (ROW.test(line)) {
      const rows = [];
      while (at < lines.length && ROW.test(lines[at])) rows.push(lines[at++]);
      blocks.push(table(rows, inline));
    } else if (ITEM.test(line)) {
      const items = [];
      while (at < lines.length && (ITEM.test(lines[at]) || (/^\s{2,}\S/.test(lines[at]) && items.length))) {
        const [, indent, mark, rest] = ITEM.exec(lines[at]) ?? [];
        if (mark) items.push({ deep: Math.min(3, Math.floor(indent.length / 2)), mark, lines: [rest] });
        else items.at(-1).lines.push(lines[at].trim());
        at += 1;
      }
      blocks.push(list(items, inline));
    } else if (QUOTE.test(line)) {
      const quoted = [];
      while (at < lines.length && QUOTE.test(lines[at])) quoted.push(QUOTE.exec(lines[at++])[1]);
      blocks.push(h("blockquote", { dir: "auto" }, inline(quoted.join("\n"))));
    } else {
      const paragraph = [];
      while (at < lines.length && lines[at].trim() && !opens(lines[at])) paragraph.push(lines[at++]);
      blocks.push(h("p", { dir: "auto" }, inline(paragraph.join("\n"))));
    }
  }
  return blocks;
}

function opens(line) {
  return FENCE.test(line) || HEADING.test(line) || ROW.test(line) || ITEM.test(line) || QUOTE.test(line);
}

function list(items, inline) {
  const ordered = /\d/.test(items[0].mark);
  return h(
    ordered ? "ol" : "ul",
    ordered ? { start: parseInt(items[0].mark, 10) } : {},
    items.map((item) => h("li", { class: item.deep ? `deep${item.deep}` : null, dir: "auto" }, inline(item.lines.join("\n")))),
  );
}

function table(rows, inline) {
  const headed = rows.length > 1 && DIVIDER.test(rows[1]);
  const cells = (row) => row.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());
  const body = rows.filter((row) => !DIVIDER.test(row));
  const line = (row, tag) => h("tr", {}, cells(row).map((cell) => h(tag, { dir: "auto" }, inline(cell))));
  return h(
    "div",
    { class: "scrolls", tabindex: "0", role: "group", "aria-label": "Table" },
    h("table", {}, headed ? h("thead", {}, line(body[0], "th")) : null, h("tbody", {}, body.slice(headed ? 1 : 0).map((row) => line(row, "td")))),
  );
}

const LONGEST = 4000; // characters of one block: the search for marks takes time with the square of it
const INLINE = /(`+)([^`]|[^`].*?[^`])\1(?!`)|(\*\*|__)(?=\S)(.+?)(?<=\S)\3|(?<![\p{L}\p{N}])([*_])(?=\S)([^*_\n]+?)(?<=\S)\5(?![\p{L}\p{N}])|!?\[([^\]\n]*)\]\(([^)\s]*)(?:\s+"[^"]*")?\)|\[(?:source\s?)?(\d{1,4}(?:\s?,\s?\d{1,4}){0,5})\]/giu;

function spans(text, how) {
  const { words, cite, link, markdown } = how;
  if (text.length > LONGEST) return marked(text, words);
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    const numbers = found[9];
    if (numbers !== undefined ? !cite : !markdown) continue;
    parts.push(...marked(text.slice(end, found.index), words));
    if (numbers !== undefined) parts.push(...numbers.split(",").map((number) => cite(Number(number)) ?? `[${number.trim()}]`));
    else if (found[1]) parts.push(h("code", {}, marked(found[2], words)));
    else if (found[3]) parts.push(h("strong", {}, spans(found[4], how)));
    else if (found[5]) parts.push(h("em", {}, spans(found[6], how)));
    else parts.push(...[link?.(found[7], found[8]) ?? spans(found[7], how)].flat());
    end = found.index + found[0].length;
  }
  parts.push(...marked(text.slice(end), words));
  return parts;
}
