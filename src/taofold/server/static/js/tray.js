/** All waiting approvals and questions of all runs. */

import { get, part, signedIn } from "./api.js";
import { card, plain, together } from "./card.js";
import { announce, empty, failed, fill, h, loading, poll, toast, turns, view } from "./dom.js";
import { ago, cut } from "./format.js";

const EVERY = 3000;
let known = null;
const listeners = new Set();
const turn = turns();

async function look() {
  const mine = turn();
  try {
    const { items } = await get("/approvals");
    if (!mine()) return;
    const before = known;
    known = items;
    badge(items.length);
    const fresh = before ? items.filter((one) => !before.some((old) => old.id === one.id)) : [];
    if (fresh.length) announce(`${fresh.length} new question${fresh.length === 1 ? "" : "s"} for you`);
    for (const tell of listeners) tell(items, null);
  } catch (error) {
    if (mine()) for (const tell of listeners) tell(null, error);
  }
}

function badge(n) {
  const node = document.getElementById("asking");
  node.hidden = n === 0;
  node.textContent = String(n);
  node.setAttribute("aria-label", `${n} waiting`);
}

/** Updates the count in the navigation. */
export function watchApprovals() {
  poll(async () => signedIn() && look(), EVERY);
  document.addEventListener("decided", () => setTimeout(look, 150));
  // The next principal on this page must not see these questions.
  document.addEventListener("signedout", () => (turn(), (known = null)));
}

export function approvalsView(main) {
  const list = h("div", { class: "cards" }, loading("questions"));
  const shown = new Map();
  const bars = new Map();

  /** Adds one decision for all questions of a step above its cards. */
  function group(items) {
    const groups = new Map();
    for (const one of items.filter((other) => other.batch && plain(other))) groups.set(one.batch, [...(groups.get(one.batch) ?? []), one]);
    for (const [batch, bar] of bars) {
      if ((groups.get(batch) ?? []).length > 1) continue;
      bar.node.remove();
      bars.delete(batch);
    }
    for (const [batch, all] of groups) {
      if (all.length < 2) continue;
      const known = bars.get(batch) ?? { all };
      known.all = all;
      if (!known.node) {
        Object.assign(known, together(() => known.all));
        bars.set(batch, known);
        shown.get(all[0].id)?.before(known.node);
      }
      known.update();
    }
  }
  view(main, "Approvals", "Actions that need your approval, and questions to you.", list);

  function draw(items, error) {
    if (error) {
      // The cards stay: a person may be writing in one.
      list.querySelector(".empty, .loading")?.remove();
      list.prepend(failed(error, look));
      return;
    }
    for (const [id, node] of shown) {
      const held = node.contains(document.activeElement);
      if (items.some((one) => one.id === id) || (held && !node.classList.contains("settled"))) continue;
      // The card leaves at once, so that no card moves later. Its words stay for some seconds.
      if (node.classList.contains("settled")) toast(`${node.querySelector("h3").textContent}: ${node.querySelector(".decided").textContent}`);
      node.remove();
      shown.delete(id);
      // Not to the next card, which the same key would decide, too.
      if (held) main.focus();
    }
    list.querySelector(".empty, .loading")?.remove();
    for (const one of items) {
      if (shown.has(one.id)) continue;
      const from = h("p", { class: "from" }, h("a", { href: `#/runs/${part(one.run)}` }, cut(one.goal || one.run, 120)),
        ` · ${one.agent || "agent"} for ${one.requester} · asked ${ago(one.asked_at)}`);
      const node = card(one, from);
      shown.set(one.id, node);
      list.append(node);
    }
    group(items);
    if (!shown.size) fill(list, empty("Nothing waits for you", "When an action needs your approval, it appears here and the run waits."));
  }

  listeners.add(draw);
  if (known) draw(known, null);
  look();
  return () => listeners.delete(draw);
}

/** Presses `name` in the focused card, or in the first one. */
export function press(name) {
  const focused = document.activeElement?.closest?.(".card");
  const one = focused ?? document.querySelector(".card:not(.settled)");
  const button = one?.querySelector(`[data-do="${name}"]`);
  if (!button) return false;
  if (!focused) one.focus();
  else button.click(); // which has no effect while it is disabled
  return true;
}
