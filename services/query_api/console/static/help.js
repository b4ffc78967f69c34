// Help: the pages of the documentation, as this server's release has them.

import { request } from "./api.js";
import { failure, fill, h } from "./dom.js";
import { prose } from "./prose.js";

export default async function help(main, app) {
  const page = app.id ?? "README"; // a page in a folder has ~ for the slash
  const box = h("div", { class: "help text", "aria-busy": "true" });
  fill(main, h("section", {}, page === "README" ? null : h("p", {}, h("a", { href: "/help" }, "All pages")), box));
  try {
    if (!/^[\w~-]+$/.test(page)) throw new Error(`There is no page “${page}”.`);
    const text = await (await request("GET", new URL(`${page}.md`, import.meta.url).href)).text();
    const [, title, rest] = /^# (.*)\n([^]*)$/.exec(text.replace(/<!--[^]*?-->\n?/g, ""));
    fill(box, h("h1", {}, title), prose(rest, { link: (words, href) => linked(page, words, href) }));
    app.title(title);
  } catch (error) {
    fill(box, h("h1", {}, "Documentation"), failure(error));
  } finally {
    box.removeAttribute("aria-busy");
  }
}

/** Return a link to another page; null where a link leads elsewhere, such as into the code. */
function linked(page, words, href) {
  const { pathname } = new URL(href, `https://pages/docs/${page.replace("~", "/")}`);
  const found = /^\/docs\/((?:clients\/)?[\w-]+)\.md$/.exec(pathname);
  return found && !/^\w+:/.test(href) ? h("a", { href: `/help/${found[1].replace("/", "~")}` }, words) : null;
}
