// The shell: who is signed in, which view the address names, and what is said in the corner.

import { get, onSignedOut, request } from "./api.js";
import { fill, h, icon } from "./dom.js";
import ask from "./ask.js";
import deadLetters from "./dead-letters.js";
import documents from "./documents.js";
import document_ from "./document.js";
import generations from "./generations.js";
import help from "./help.js";
import overview from "./overview.js";
import search from "./search.js";
import settings from "./settings.js";

const root = document.documentElement;
const main = document.getElementById("view");
try {
  root.style.colorScheme = localStorage.theme ?? ""; // before anything is painted
} catch {
  // The browser keeps nothing for this page.
}
const ROUTES = [
  [/^\/$/, "Ask", ask],
  [/^\/search$/, "Search", search],
  [/^\/documents$/, "Documents", documents],
  [/^\/documents\/([^/]+)$/, "Documents", document_],
  [/^\/overview$/, "Overview", overview],
  [/^\/generations$/, "Generations", generations],
  [/^\/dead-letters$/, "Dead letters", deadLetters],
  [/^\/settings$/, "Settings", settings],
  [/^\/help(?:\/([^/]+))?$/, "Documentation", help],
];

let session = JSON.parse(root.dataset.session);
let leave = null; // ends what the view that is shown has begun

/** What a view gets: where it is, who looks, how to go on and how to say something. */
const app = {
  get session() {
    return session;
  },
  may: (role) => session.roles.includes(role),
  go,
  say,
  counted: () => session.signedIn && app.may("admin") && letters(),
  title: (text) => {
    document.title = `${text} · Sluice`;
  },
  /** Write the view's own state into the address, so that it can be shared and gone back to. */
  remember: (params) => {
    const query = new URLSearchParams(Object.entries(params).flatMap(([name, value]) => [value].flat().filter(Boolean).map((each) => [name, each])));
    const text = query.toString();
    history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
  },
};

function go(path) {
  history.pushState(null, "", path);
  show(true);
}

function show(moved) {
  leave?.abort();
  leave = new AbortController();
  const path = location.pathname.length > 1 ? location.pathname.replace(/\/$/, "") : "/";
  const [pattern, name, view] = ROUTES.find(([each]) => each.test(path)) ?? [/^/, "Not found", missing];
  document.title = `${name} · Sluice`;
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.getAttribute("href") === path || (name === "Documents" && link.getAttribute("href") === "/documents");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  for (const item of document.querySelectorAll("nav li")) {
    item.hidden = session.signedIn && item.dataset.role !== "" && !app.may(item.dataset.role);
  }
  root.classList.toggle("locked", !session.signedIn);
  who();
  app.counted();
  if (!session.signedIn) return signIn();
  const found = pattern.exec(path);
  view(main, { ...app, may: app.may, session, signal: leave.signal, params: new URLSearchParams(location.search), id: found?.[1] ? decodeURIComponent(found[1]) : null });
  if (moved) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

/** Show how many dead letters there are beside their link. */
async function letters() {
  const link = document.querySelector('nav a[href="/dead-letters"]');
  const found = await get("/ops/dead-letters", { limit: 1 }).catch(() => null);
  link.querySelector(".count")?.remove();
  if (found?.total) link.append(h("span", { class: "count", title: `${found.total} dead letters` }, String(found.total)));
}

function missing() {
  fill(main, h("h1", {}, "There is no such page"), h("p", {}, h("a", { href: "/" }, "Ask your documents"), " instead."));
}

function who() {
  const box = document.getElementById("who");
  if (!session.signedIn) return fill(box);
  if (!session.keys) return fill(box, h("a", { class: "tenant", href: "/settings" }, "Settings"));
  return fill(
    box,
    h("a", { class: "tenant", href: "/settings", title: `Settings. May: ${session.roles.join(", ")}` }, session.tenant),
    h("button", { type: "button", class: "quiet", "aria-label": "Sign out", title: "Sign out", onclick: signOut }, icon("out")),
  );
}

function signIn(problem) {
  const key = h("input", { id: "key", type: "password", autocomplete: "current-password", required: true, spellcheck: "false" });
  const plain = location.protocol === "http:" && !["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  const form = h(
    "form",
    { class: "card narrow" },
    h("h1", {}, "Sign in"),
    h("p", { class: "muted" }, "This Sluice asks for an API key. Your browser keeps a session that ends with the key; it never keeps the key."),
    plain ? h("p", { class: "note" }, "This address has no TLS, so your browser will not keep the session. Open it by https:// or on the machine itself.") : null,
    problem ? h("p", { class: "note bad", role: "alert" }, problem) : null,
    h("label", { for: "key" }, "API key"),
    key,
    h("button", { class: "primary" }, "Sign in"),
    session.provider ? h("p", {}, h("a", { href: "/console/oidc" }, "Sign in with your organisation's account")) : null,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await request("POST", "/console/session", { body: { key: key.value } });
      session = await get("/console/session");
      if (session.signedIn) location.reload(); // nothing that another key saw stays on the page
      else signIn("The browser did not keep the session. Open the page by https://.");
    } catch (error) {
      signIn(error.status === 401 ? "This server doesn't know that key." : error.sentence);
    }
  });
  document.title = "Sign in · Sluice";
  fill(main, form);
  key.focus();
}

async function signOut() {
  await request("DELETE", "/console/session").catch(() => {});
  for (const name of Object.keys(localStorage)) if (name.startsWith("sluice.")) localStorage.removeItem(name);
  location.reload();
}

/** Say something in the corner. Returns what takes it away; `stay`: until then. */
function say(...what) {
  const { stay = false, bad = false } = what.at(-1)?.constructor === Object ? what.pop() : {};
  const box = document.getElementById("notices");
  const notice = h("div", { class: bad ? "notice bad" : "notice" }, what);
  const away = () => notice.remove();
  notice.append(h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: away }, icon("close")));
  box.append(notice);
  if (!stay) setTimeout(away, bad ? 12_000 : 6000);
  return away;
}

onSignedOut(() => {
  if (!session.keys || !session.signedIn) return;
  session = { ...session, signedIn: false, tenant: null, roles: [] };
  show(false);
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || link.target || !ROUTES.some(([each]) => each.test(url.pathname))) return;
  if (link.hash && url.pathname === location.pathname) return;
  event.preventDefault();
  go(url.pathname + url.search);
});

addEventListener("popstate", () => show(true));

// "/" goes to the search, wherever nobody types.
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || /^(input|textarea|select)$/i.test(event.target.tagName)) return;
  const field = main.querySelector("[data-find]");
  if (!field) return;
  event.preventDefault();
  field.focus();
});

/** Show the page. A link from another site brings no strict cookie; a request of the page's own does. */
async function begin() {
  if (session.keys && !session.signedIn) session = await get("/console/session").catch(() => session);
  show(false);
}

begin();
