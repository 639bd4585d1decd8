/** MCP servers to which the user can sign in, and the return from their pages. */

import { get, post } from "./api.js";
import { empty, fill, h, loaded, toast, tried, view } from "./dom.js";
import { several } from "./format.js";

const BACK = "/signed-in";

/** Sends the browser's final address to the server, then shows the page. */
export async function returned() {
  if (location.pathname !== BACK) return;
  const address = location.href;
  // Removed at once: the code must not stay in the address, and a reload must not send it again.
  history.replaceState(null, "", "/#/servers");
  try {
    const done = await post("/servers/signin/finish", { address });
    toast(`Signed in to ${done.server}: ${several(done.tools, "tool")}.`);
  } catch (error) {
    toast(error.message, "bad");
  }
}

/** Shows the section if it has entries. */
export async function watchServers() {
  try {
    const { items } = await get("/servers");
    document.getElementById("servers").hidden = !items.length;
  } catch {
    // Without the right to start runs a sign-in has no use.
  }
}

export function serversView(main) {
  const list = h("div");
  view(main, "Servers", "MCP servers that need a sign-in. Your runs use only your own sign-in.", list);

  const draw = ({ items }) => (items.length ? h("ul", { class: "rows" }, items.map((one) => h("li", { class: "row entry" },
    h("span", { class: "what" }, h("span", { class: "goal" }, one.name), h("span", { class: "by" }, one.server)),
    h("span", {}, state(one)), h("span", { class: "buttons" }, buttons(one)))))
    : empty("No server needs a sign-in", "An agent file gives one `oauth: {per_principal: true}`."));
  function buttons(one) {
    const begin = h("button", { type: "button", class: one.signed_in ? "quiet" : "primary", onclick: () => tried(async () => {
      const { address } = await post("/servers/signin", { server: one.server });
      if (address) location.assign(address);
      else toast(`${one.name} needs no sign-in.`);
    }) }, one.signed_in ? "Sign in again" : "Sign in", h("span", { class: "unseen" }, ` to ${one.name}`));
    if (!one.signed_in) return [begin];
    return [begin, h("button", { type: "button", class: "quiet", onclick: () => tried(async () => fill(list, draw(await post("/servers/signout", { server: one.server })))) }, "Sign out", h("span", { class: "unseen" }, ` of ${one.name}`))];
  }
  return loaded(list, "servers", () => get("/servers"), draw);
}

function state(one) {
  if (!one.signed_in) return "not signed in";
  const whose = one.shared ? "signed in, for all runs" : "signed in";
  const until = one.expires_at && !one.renewed ? `, until ${one.expires_at}` : "";
  return `${whose}${one.scope ? ` for ${one.scope}` : ""}${until}`;
}
