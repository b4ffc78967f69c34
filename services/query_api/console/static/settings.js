// Settings: who may do what with which key, who did what, what is in force, and what this server is.

import { get, request } from "./api.js";
import { count, empty, failure, fill, h, plural, sure, when } from "./dom.js";

const DAY_MS = 86_400_000;
const PAGES = 10; // of the audit trail, which begins with the oldest
const ENTRIES = 200; // shown of them

export default function settings(main, app) {
  const { version } = document.documentElement.dataset;
  const operates = app.may("operator");
  const parts = [
    ["Keys", ofKeys, operates || app.may("admin")],
    ["Tenants", tenants, operates],
    ["Who did what", audit, operates || app.may("admin")],
    ["Thumbs", thumbs, app.may("admin")],
    ["In force", inForce, operates],
  ].filter(([, , shown]) => shown);
  const cards = parts.map(([name, load]) => {
    const box = h("div", {});
    loaded(box, load, app);
    return h("section", { class: "card" }, h("h2", {}, name), box);
  });
  const about = h("p", { class: "muted" }, `Sluice ${version} · `, h("a", { href: "/help" }, "documentation"), " · ", h("a", { href: "/openapi.json", target: "_blank" }, "the API, as OpenAPI"));
  fill(main, h("section", { class: "list settings" }, h("h1", {}, "Settings"), about, theme(), cards));
}

/** Return the choice of light or dark. The browser keeps it, whoever signs in. */
function theme() {
  const { style } = document.documentElement;
  const chosen = () => {
    style.colorScheme = select.value;
    try {
      localStorage.theme = select.value;
    } catch {
      // The browser keeps nothing for this page.
    }
  };
  const select = h("select", { onchange: chosen }, [["", "As the device"], ["light", "Light"], ["dark", "Dark"]].map(([value, name]) => h("option", { value }, name)));
  select.value = style.colorScheme;
  return h("label", { class: "row" }, "Theme", select);
}

/** Fill the box with what `load` returns, or with why it can't be had. */
async function loaded(box, load, app) {
  const again = () => loaded(box, load, app);
  box.setAttribute("aria-busy", "true");
  try {
    fill(box, await load(app, again));
  } catch (error) {
    fill(box, failure(error, again));
  } finally {
    box.removeAttribute("aria-busy");
  }
}

async function ofKeys(app, again) {
  const revoke = async (id) => {
    try {
      await request("DELETE", `/ops/keys/${id}`);
      app.say(`The key ${id} is revoked.`);
    } catch (error) {
      app.say(error.sentence ?? String(error), { bad: true });
    }
    again();
  };
  const { items } = await get("/ops/keys");
  const row = ({ id, tenant, roles, created, note, revocable }) => [h("code", {}, id), tenant, roles.join(", "), created ? when(created) : "", note, revocable ? sure("trash", "Revoke", "Revoke it?", () => revoke(id), "danger") : null];
  return [
    items.length ? table(["Id", "Tenant", "May", "Made", "Note", "Revoke"], items.map(row)) : empty("There are no keys: everybody who reaches this server may do everything."),
    h("p", { class: "muted" }, "A new one is made on the server, which prints it once: "),
    h("pre", {}, h("code", {}, `sluice keys new --tenant ${app.session.tenant ?? "default"} --role ingest --role query --note NAME`)),
  ];
}

async function tenants() {
  const { items } = await get("/ops/tenants");
  const row = (each) => [each.tenant, ...[each.documents, each.deleted, each.erased, each.letters, each.keys].map(count)];
  return items.length ? table(["Tenant", "Documents", "Deleted", "Erased", "Dead letters", "Keys"], items.map(row)) : empty("There are no tenants yet.");
}

async function audit() {
  let found, page, since;
  // So much of the last day as can be read to its end: the newest is wanted.
  for (let span = DAY_MS; span > 1000 && (page?.more ?? true); span /= 8) {
    [found, page, since] = [[], null, new Date(Date.now() - span).toISOString()];
    for (let pages = 0; (page?.more ?? true) && pages < PAGES; pages += 1) {
      page = await get("/ops/audit", page ? { cursor: page.cursor, limit: 1000 } : { since, limit: 1000 });
      found.push(...page.items);
    }
  }
  // An admin's change has an entry before it begins: what has none, and changed nothing, only looked.
  const begun = new Set(found.filter(({ result }) => result === "begun").map(({ request }) => request));
  const ended = new Set(found.filter(({ result }) => result !== "begun").map(({ request }) => request));
  const changes = found.filter(({ request, result, role, documentIds }) => (result === "begun" ? !ended.has(request) : result !== "done" || documentIds || !role || begun.has(request)));
  if (!changes.length) return empty(`Nobody changed anything since ${new Date(since).toLocaleString()}.`);
  const changed = ({ documentIds: ids = [] }) => (ids.length === 1 ? h("a", { href: `/documents/${ids[0]}` }, "1 document") : ids.length ? plural(ids.length, "document") : "");
  const row = (each) => [when(each.time), h("span", { title: each.action }, named(each.action)), each.count > 1 ? `${each.result}, ${count(each.count)} times` : each.result, each.tenant ?? "", h("code", {}, each.key ?? ""), changed(each)];
  const told = `Changes and refusals since ${new Date(since).toLocaleString()}, the newest ${ENTRIES} at most; sluice audit has all.`;
  return [h("p", { class: "muted" }, told), table(["When", "What", "Result", "Tenant", "Key", "Changed"], changes.slice(-ENTRIES).reverse().map(row))];
}

/** Return an action in words: "redrive dead letters" of `ops_dead_letters_redrive`. */
function named(action) {
  const words = action.replace(/^(console|openai|ops|rag)_/, "").replaceAll("_", " ");
  return words.replace(/^(.+) (cancel|compare|delete|drop|erase|gc|patch|redrive|reread|revoke|rollback|start|switch)$/, "$2 $1");
}

async function thumbs() {
  const { items } = await get("/ops/feedback", { limit: 100 });
  const row = (each) => [when(each.time), each.thumb, each.reason ?? "", each.question ?? "", each.model ?? "", each.sources?.map(({ documentId, chunkId }, at) => [" ", h("a", { href: `/documents/${documentId}?chunk=${encodeURIComponent(chunkId)}` }, String(at + 1))]) ?? ""];
  return items.length ? table(["When", "Thumb", "Why", "Question", "Model", "Passages"], items.map(row)) : empty("Nobody has given a thumb in the last 90 days.");
}

async function inForce() {
  const { settings: all } = await get("/ops/config");
  return table(["Setting", "Value", "From"], all.map(({ name, value, source }) => [h("code", {}, name), String(value ?? ""), source]));
}

function table(heads, rows) {
  const line = (cells) => h("tr", {}, cells.map((cell) => h("td", { dir: typeof cell === "string" ? "auto" : null }, cell)));
  return h("div", { class: "scrolls", tabindex: "0", role: "group", "aria-label": "Table" }, h("table", {}, h("thead", {}, h("tr", {}, heads.map((name) => h("th", {}, name)))), h("tbody", {}, rows.map(line))));
}
