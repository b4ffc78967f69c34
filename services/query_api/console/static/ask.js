// Ask: a conversation about the documents. The answer is shown as it comes, and each [n] opens what it cites.

import { events, get, post, Problem, request } from "./api.js";
import { fill, h, icon, STANDINGS } from "./dom.js";
import { passage } from "./passage.js";
import { prose } from "./prose.js";
import { Scope } from "./scope.js";

const EARLIER = 10; // turns that are sent along
const CONVERSATIONS = 20; // that this browser keeps

const kept = { id: null, turns: [], scope: null, model: "" }; // a look at a citation doesn't lose the conversation

export default function ask(main, app) {
  const thread = h("div", { class: "thread", "aria-live": "polite" });
  const bar = h("div");
  kept.scope ??= new Scope(() => {});
  const scope = kept.scope;
  scope.changed = () => fill(bar, scope.bar());
  const question = h("textarea", { id: "question", rows: "1", "aria-label": "Your question", placeholder: "Ask about your documents", "data-find": "", dir: "auto" });
  const button = h("button", { class: "primary round", "aria-label": "Ask" }, icon("send"));
  const busy = (is) => {
    button.setAttribute("aria-label", is ? "Stop" : "Ask");
    fill(button, icon(is ? "stop" : "send"));
  };
  const form = h("form", { class: "composer" }, h("div", { class: "row apart" }, bar, models()), h("div", { class: "field" }, question, button));
  const heading = h("div", { class: "hero" }, h("h1", {}, "Ask your documents"), h("p", { class: "muted" }, "Answers come from what the documents say now, and each shows the passages it rests on."));
  const fresh = h("button", { type: "button", class: "quiet fresh", onclick: () => restart() }, "New conversation");
  let running = null;

  const restart = (earlier = { id: null, turns: [] }) => {
    running?.abort();
    kept.id = earlier.id;
    kept.turns = earlier.turns.map(({ question, answer, list, cited, about }) => {
      const turn = begun(question, app);
      turn.known(list);
      turn.about = about;
      turn.ended(answer, cited);
      return turn;
    });
    render();
    question.focus();
  };
  const render = () => {
    const begun = kept.turns.length > 0;
    form.classList.toggle("low", begun);
    fill(thread, kept.turns.map((turn) => turn.element));
    fill(main, h("section", { class: begun ? "ask begun" : "ask" }, begun ? [h("h1", { class: "hidden" }, "Ask your documents"), fresh] : heading, thread, form, begun ? null : [suggestions(app, (text) => submit(text)), conversations(app, restart)]));
  };
  const grow = () => {
    question.style.height = "auto";
    question.style.height = `${Math.min(question.scrollHeight, 200)}px`;
  };
  const submit = async (text) => {
    if (!text.trim() || running) return;
    question.value = "";
    const earlier = kept.turns.filter((turn) => turn.answer).slice(-EARLIER).flatMap((turn) => [{ role: "user", content: turn.question }, { role: "assistant", content: turn.answer }]);
    const turn = begun(text, app);
    kept.turns.push(turn);
    render();
    grow();
    turn.element.scrollIntoView({ block: "start", behavior: "smooth" });
    running = new AbortController();
    app.signal.addEventListener("abort", () => running?.abort());
    busy(true);
    try {
      await answered(turn, { message: text, useRag: true, stream: true, model: kept.model || undefined, ragFilters: scope.filters ?? undefined, conversationHistory: earlier.length ? earlier : undefined }, running.signal);
      keep(app);
    } catch (error) {
      if (error.name === "AbortError") turn.stopped();
      else turn.failed(error, () => again(turn));
    } finally {
      running = null;
      busy(false);
    }
  };
  const again = (turn) => {
    kept.turns = kept.turns.filter((each) => each !== turn);
    submit(turn.question);
  };

  question.addEventListener("input", grow);
  question.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit(question.value);
    }
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (running) running.abort();
    else submit(question.value);
  });
  scope.changed();
  render();
  if (matchMedia("(min-width: 700px)").matches) question.focus({ preventScroll: true });
  const asked = app.params.get("q");
  if (asked && !kept.turns.length) submit(asked);
}

/** Return the choice of the model that answers; nothing where there is one. */
function models() {
  const choice = h("select", { "aria-label": "Model", hidden: true, onchange: () => (kept.model = choice.value) });
  get("/v1/models").then(
    ({ data }) => {
      const names = data.map(({ id }) => id).filter((id) => id.startsWith("rag/") && !id.endsWith(":inline")).map((id) => id.slice(4));
      choice.hidden = names.length < 2;
      fill(choice, names.map((name) => h("option", { value: name }, name)));
      choice.value = kept.model || names[0];
    },
    () => {},
  );
  return choice;
}

/** Where this browser keeps the conversations of a tenant's key; signing out empties it. */
const place = ({ session }) => `sluice.asked.${session.tenant}.${session.key}`;

function earlier(app) {
  try {
    return JSON.parse(localStorage.getItem(place(app))) ?? [];
  } catch {
    return [];
  }
}

function keep(app) {
  kept.id ??= Date.now();
  // Of the passages only their places are kept: what is erased here must not stay there.
  const bare = ({ metadata: { title, path, documentId, chunkId, pageNumber } = {}, ...source }) => ({ ...source, text: undefined, metadata: { title, path, documentId, chunkId, pageNumber } });
  const turns = kept.turns.filter((turn) => turn.answer).map(({ question, answer, list, cited, about }) => ({ question, answer, list: list.map(bare), cited, about }));
  if (!turns.length) return;
  const all = [{ id: kept.id, turns }, ...earlier(app).filter((each) => each.id !== kept.id)];
  try {
    localStorage.setItem(place(app), JSON.stringify(all.slice(0, CONVERSATIONS)));
  } catch {
    // It is full, or the browser keeps nothing: the conversation itself goes on.
  }
}

/** Return the earlier conversations, each opened by a click. */
function conversations(app, open) {
  const found = earlier(app);
  if (!found.length) return null;
  const box = h("section", { class: "earlier" }, h("div", { class: "row apart" }, h("h2", {}, "Earlier conversations"), h("button", { type: "button", class: "quiet", onclick: () => (localStorage.removeItem(place(app)), box.remove()) }, "Forget them")), h("p", { class: "muted" }, "Kept in this browser alone, until you sign out."), h("ul", {}, found.map((each) => h("li", {}, h("button", { type: "button", class: "link cut", dir: "auto", onclick: () => open(each) }, each.turns[0].question)))));
  return box;
}

/** Return three questions to begin with: they come from what is there. */
function suggestions(app, submit) {
  const box = h("div", { class: "suggestions" });
  get("/rag/documents", { limit: 3, status: STANDINGS.searchable }).then(
    ({ items }) => {
      if (!items.length)
        fill(box, h("p", { class: "muted" }, "There is nothing to ask about yet. ", h("a", { href: "/documents" }, app.may("ingest") ? "Add your first documents" : "See the documents"), "."));
      else {
        const samples = ["When is the tower open in October?", "How long does one winding of the clockwork last?", "What does a ticket for the boat cost?"];
        const own = items.filter((each) => each.title).map((each) => `What does “${each.title.slice(0, 60)}” say?`);
        fill(box, (items.some((each) => each.source === "samples") ? samples : own).map((text) => h("button", { type: "button", class: "suggestion", dir: "auto", onclick: () => submit(text) }, text)));
      }
    },
    () => {},
  );
  return box;
}

/** Return a turn of the conversation, waiting for its answer. */
function begun(question, app) {
  const body = h("div", { class: "answer" }, h("p", { class: "waiting", role: "status" }, "Looking through the documents…"));
  const sources = h("div", { class: "sources" });
  const element = h("article", { class: "turn" }, h("p", { class: "question", dir: "auto" }, question), body, sources);
  let passages = [];
  const cite = (number) => {
    const found = passages[number - 1];
    if (!found) return null;
    return h("a", { class: "cite", href: found.href, title: found.title, "aria-label": `Source ${number}: ${found.title}` }, String(number));
  };
  const turn = {
    question,
    element,
    answer: "",
    list: [],
    cited: [],
    about: null, // by which a thumb names the answer
    known(list) {
      turn.list = list;
      passages = list.map(citable);
    },
    shown(text, done) {
      turn.answer = done ? text : "";
      fill(body, prose(text, { cite, breaks: true }), done ? null : h("span", { class: "caret", "aria-hidden": "true" }));
    },
    ended(text, cited) {
      turn.shown(text, true);
      turn.cited = cited;
      const copy = navigator.clipboard ? h("button", { type: "button", class: "quiet", onclick: () => navigator.clipboard.writeText(text).then(() => app.say("Copied."), () => app.say("The browser refused to copy it.", { bad: true })) }, "Copy") : null;
      const below = h("div", { class: "row wrap" }, copy, turn.about ? thumbs(turn, app) : null);
      const search = h("p", {}, h("a", { href: `/search?q=${encodeURIComponent(question)}` }, "Search for it"), " to see the nearest passages.");
      if (!cited.length) return fill(sources, below, search);
      return fill(
        sources,
        below,
        h("h2", {}, cited.length === 1 ? "Source" : "Sources"),
        h("ol", {}, cited.map((number) => h("li", { value: String(number) }, passage(passages[number - 1], { number, words: [] })))),
      );
    },
    stopped() {
      body.querySelector(".waiting, .caret")?.remove();
      body.append(h("p", { class: "muted" }, "Stopped."));
    },
    failed(error, again) {
      const hint = error.code === "GENERATION_FAILED" || error.code === "NO_MODEL" ? " The search still works." : "";
      fill(body, h("div", { class: "note bad", role: "alert" }, h("p", {}, error.sentence ?? String(error), hint), h("button", { type: "button", onclick: again }, icon("redo"), "Ask again")));
    },
  };
  return turn;
}

/** Return the thumbs under an answer, and where its reader may say why. */
function thumbs(turn, app) {
  const why = h("div", { class: "grow" });
  const sources = turn.list.slice(0, 100).map(({ documentId, chunkId }) => ({ documentId, chunkId }));
  const give = async (thumb, reason) => {
    try {
      await post("/rag/feedback", { ...turn.about, thumb, reason, sources, question: [...turn.question].slice(0, 1000).join("") });
      for (const each of buttons) each.setAttribute("aria-pressed", String(each.dataset.thumb === thumb));
      fill(why, reason === undefined ? form(thumb) : h("span", { class: "muted", role: "status" }, "Thank you."));
      (why.querySelector("input") ?? buttons.find((each) => each.dataset.thumb === thumb)).focus({ preventScroll: true });
    } catch (error) {
      app.say(error.sentence ?? String(error), { bad: true });
    }
  };
  const form = (thumb) => {
    const reason = h("input", { class: "grow", "aria-label": "Why?", placeholder: "Why? Your admin reads it.", maxlength: "1000", required: true, dir: "auto" });
    const asked = h("form", { class: "row" }, reason, h("button", {}, "Send"));
    asked.addEventListener("submit", (event) => {
      event.preventDefault();
      give(thumb, reason.value);
    });
    return asked;
  };
  const buttons = [["up", "A good answer"], ["down", "A bad answer"]].map(([thumb, name]) => h("button", { type: "button", class: "quiet thumb", "data-thumb": thumb, "aria-label": name, title: name, "aria-pressed": "false", onclick: () => give(thumb) }, icon(thumb)));
  return [buttons, why];
}

function citable(source) {
  const metadata = source.metadata ?? {};
  const id = source.documentId;
  return {
    title: metadata.title || metadata.path || "Untitled",
    href: `/documents/${id}?chunk=${encodeURIComponent(source.chunkId)}`,
    text: source.text ?? metadata.text ?? "",
    metadata,
  };
}

async function answered(turn, body, signal) {
  const response = await request("POST", "/chat", { body, signal, headers: { Accept: "text/event-stream, application/json" } });
  turn.about = { request: response.headers.get("x-request-id") };
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return finish(turn, await response.json());
  let text = "";
  let due = false;
  for await (const { event, data } of events(response)) {
    if (event === "sources") turn.known(data.ragSources);
    else if (event === "token") {
      text += data.content;
      if (!due) {
        due = true;
        requestAnimationFrame(() => {
          if (due) turn.shown(text, false);
          due = false;
        });
      }
    } else if (event === "error") throw new Problem(data.status, data);
    else if (event === "done") {
      due = false;
      return finish(turn, data);
    }
  }
  throw new Problem(0, { detail: "the answer broke off" });
}

function finish(turn, reply) {
  const texts = new Map([...(reply.sources ?? []).map((each) => [each.chunkId, each.chunk]), ...(reply.citations ?? []).map((each) => [each.chunkId, each.excerpt])]);
  turn.known((reply.ragSources ?? []).map((each) => ({ ...each, text: each.text ?? texts.get(each.chunkId) })));
  const numbers = [...reply.response.matchAll(/\[(?:source\s?)?(\d{1,4}(?:\s?,\s?\d{1,4})*)\]/gi)].flatMap((found) => found[1].split(",").map(Number));
  const known = (reply.ragSources ?? []).length;
  turn.about.model = reply.data?.model;
  turn.ended(reply.response, [...new Set(numbers)].filter((number) => number >= 1 && number <= known));
}
