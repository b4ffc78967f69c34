// Settings: who may do what with which key, what is in force, and what this server is.

import { get, request } from "./api.js";
import { empty, failure, fill, h, sure, when } from "./dom.js";

export default function settings(main, app) {
  const { version } = document.documentElement.dataset;
  const keys = h("div", { "aria-busy": "true" });
  const values = h("div", { "aria-busy": "true" });
  fill(
    main,
    h(
      "section",
      { class: "list settings" },
      h("h1", {}, "Settings"),
      h("p", { class: "muted" }, `Sluice ${version} · `, h("a", { href: "/openapi.json", target: "_blank" }, "the API, as OpenAPI")),
      app.may("admin") || app.may("operator") ? h("section", { class: "card" }, h("h2", {}, "Keys"), keys) : null,
      app.may("operator") ? h("section", { class: "card" }, h("h2", {}, "In force"), values) : null,
    ),
  );
  if (app.may("admin") || app.may("operator")) ofKeys(keys, app);
  if (app.may("operator")) inForce(values);
}

async function ofKeys(box, app) {
  const again = () => ofKeys(box, app);
  const revoke = async (id) => {
    try {
      await request("DELETE", `/ops/keys/${id}`);
      app.say(`The key ${id} is revoked.`);
    } catch (error) {
      app.say(error.sentence ?? String(error), { bad: true });
    }
    again();
  };
  try {
    const { items } = await get("/ops/keys");
    const line = ({ id, tenant, roles, created, note, revocable }) => h("tr", {}, h("td", {}, h("code", {}, id)), h("td", {}, tenant), h("td", {}, roles.join(", ")), h("td", {}, created ? when(created) : ""), h("td", {}, note), h("td", {}, revocable ? sure("trash", "Revoke", "Revoke it?", () => revoke(id), "danger") : null));
    fill(
      box,
      items.length ? table(["Id", "Tenant", "May", "Made", "Note", ""], items.map(line)) : empty("There are no keys: everybody who reaches this server may do everything."),
      h("p", { class: "muted" }, "A new one is made on the server, which prints it once: "),
      h("pre", {}, h("code", {}, `sluice keys new --tenant ${app.session.tenant ?? "default"} --role ingest --role query --note NAME`)),
    );
  } catch (error) {
    fill(box, failure(error, again));
  } finally {
    box.removeAttribute("aria-busy");
  }
}

async function inForce(box) {
  try {
    const { settings: all } = await get("/ops/config");
    const line = ({ name, value, source }) => h("tr", {}, h("td", {}, h("code", {}, name)), h("td", {}, String(value ?? "")), h("td", { class: "muted" }, source));
    fill(box, table(["Setting", "Value", "From"], all.map(line)));
  } catch (error) {
    fill(box, failure(error, () => inForce(box)));
  } finally {
    box.removeAttribute("aria-busy");
  }
}

function table(heads, rows) {
  return h("div", { class: "scrolls", tabindex: "0", role: "group", "aria-label": "Table" }, h("table", {}, h("thead", {}, h("tr", {}, heads.map((name) => h("th", {}, name)))), h("tbody", {}, rows)));
}
