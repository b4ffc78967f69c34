// Builds the page. Text only ever becomes text nodes: there is no way in here to turn a string into markup.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element. `props`: attributes; `on…` are listeners; false, null and undefined leave an attribute out. */
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** Return an SVG element. */
export function s(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "indeterminate") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Put the children in place of what the element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const ICONS = {
  ask: "M4 5h16v11H9l-5 4z",
  search: "M10.500 4a6.500 6.500 0 1 1 0 13a6.500 6.500 0 0 1 0-13M15.500 15.500L21 21",
  documents: "M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6",
  overview: "M4 20V11M10 20V4M16 20v-7M22 20H2",
  generations: "M12 3l9 5-9 5-9-5zM3 13l9 5 9-5",
  letters: "M3 6h18v12H3zM3 7l9 7 9-7",
  upload: "M12 16V4M7 9l5-5 5 5M4 16v4h16v-4",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13",
  redo: "M20 11A8 8 0 1 0 18 17M20 4v7h-7",
  close: "M5 5l14 14M19 5L5 19",
  check: "M4 12l6 6L20 6",
  stop: "M7 7h10v10H7z",
  send: "M4 12l16-8-6 16-3-6z",
  edit: "M4 20l1-5L16 4l4 4L9 19z",
  download: "M12 4v12M7 11l5 5 5-5M4 16v4h16v-4",
  back: "M14 5l-7 7 7 7",
  out: "M10 4H4v16h6M15 8l5 4-5 4M20 12H9",
  more: "M6 9l6 6 6-6",
  up: "M3 11h4v9H3zM7 11l4-8c2 0 3 1.500 2.500 3.500L13 9h7l-2 11H7",
  down: "M21 13h-4V4h4zM17 13l-4 8c-2 0-3-1.500-2.500-3.500L11 15H4l2-11h11",
};

/** Return a picture beside a text that says the same. */
export function icon(name) {
  return s("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, s("path", { d: ICONS[name] }));
}

const MOST_MARKS = 500; // of one piece of text: more helps nobody to see

/** Return text with each occurrence of one of `words` in a mark. Words are compared as they are, in any case. */
export function marked(text, words) {
  if (!words.length) return [text];
  const pattern = new RegExp(words.map(asWord).join("|"), "giu");
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(pattern)) {
    if (!found[0]) continue;
    if (parts.length > 2 * MOST_MARKS) break;
    parts.push(text.slice(end, found.index), h("mark", {}, found[0]));
    end = found.index + found[0].length;
  }
  parts.push(text.slice(end));
  return parts.filter((part) => part !== "");
}

// Words of scripts that put no space between them stand anywhere; of others, at the start of a word, with any ending.
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

function asWord(word) {
  return UNSPACED.test(word) ? escaped(word) : `(?<![\\p{L}\\p{N}])${escaped(word)}\\p{L}{0,4}(?![\\p{L}\\p{N}])`;
}

function escaped(text) {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
}

const ENDINGS = /(?:ings?|edly|ed|es|s|ly)$/;
const STOP = new Set(
  ("a an and are as at be been but by can could did do does for from had has have how i if in is it its me my no not of on or " +
    "our should so that the their them then there these they this those to was we were what when where which who why will with you your").split(" "),
);

/** Return the words of a query that are worth marking, without the endings that a search ignores as well. */
export function wordsOf(query) {
  const words = (query.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).filter((word) => !STOP.has(word));
  const stems = words.map((word) => (word.length > 4 ? word.replace(ENDINGS, "") : word)).filter((word) => word.length > 1);
  return [...new Set(stems)].sort((a, b) => b.length - a.length).slice(0, 32);
}

/** Return a number as people read it. */
export function count(number) {
  return number.toLocaleString("en");
}

/** Return "1 document", "2 documents". */
export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Return a note about what could not be read as a line. */
export function noted({ place, message }) {
  return place ? `${place}: ${message}` : message;
}

/** Return a size in bytes as people read it. */
export function bytes(size) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) [size, unit] = [size / 1000, unit + 1];
  return `${size >= 100 || unit === 0 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** Return a time span in milliseconds as people read it. */
export function span(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  return `${Math.round(ms / 3_600_000)} h`;
}

/** Return a time element: "3 min ago", the exact time on hover. */
export function when(iso) {
  const date = new Date(iso);
  return h("time", { datetime: iso, title: date.toLocaleString() }, ago(date));
}

function ago(date) {
  const seconds = Math.max(0, (Date.now() - date.getTime()) / 1000);
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  if (seconds < 7 * 86_400) return plural(Math.round(seconds / 86_400), "day") + " ago";
  return date.toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

/** Return a function that calls `act` once, when nobody has called for so many milliseconds. */
export function settled(act, ms = 250) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), ms);
  };
}

/** How people see where a document stands: by the statuses that the server gives its newest submission. */
export const STANDINGS = {
  searchable: ["created", "updated", "unchanged"],
  processing: ["accepted"],
  failed: ["failed"],
  deleted: ["deleted"],
};

/** Return where a document stands. */
export function standing({ status }) {
  return Object.keys(STANDINGS).find((name) => STANDINGS[name].includes(status)) ?? "processing";
}

/** Return how many documents of the stats stand so. */
export function standingCount(documents, name) {
  return STANDINGS[name].reduce((sum, status) => sum + (documents[status] ?? 0), 0);
}

/** Return a standing as a dot; what is read aloud says the word. */
export function dot(name) {
  return h("span", { class: `dot ${name}`, title: name }, h("span", { class: "hidden" }, name));
}

/** Return a standing as a badge; the word says it, the colour only helps. */
export function badge(name) {
  return h("span", { class: `badge ${name}` }, name);
}

/** Return a button that asks for a second press within 5 seconds before it acts. */
export function sure(picture, label, question, act, kind = "") {
  const face = (text) => [picture ? icon(picture) : null, text];
  const button = h("button", { type: "button", class: kind }, face(label));
  let timer = 0;
  const back = () => {
    delete button.dataset.sure;
    fill(button, face(label));
  };
  button.addEventListener("click", () => {
    clearTimeout(timer);
    if (button.dataset.sure) return back(), act();
    button.dataset.sure = "yes";
    fill(button, face(question));
    timer = setTimeout(back, 5000);
  });
  return button;
}

/** Return a sentence where there is nothing else to show. */
export function empty(title, ...more) {
  return h("div", { class: "empty" }, h("p", { class: "strong" }, title), more.length ? h("p", {}, ...more) : null);
}

/** Return a sentence about what went wrong, with a button to try again. */
export function failure(problem, again) {
  return h(
    "div",
    { class: "note bad", role: "alert" },
    h("p", {}, problem.sentence ?? String(problem)),
    again ? h("button", { type: "button", onclick: again }, icon("redo"), "Try again") : null,
  );
}
