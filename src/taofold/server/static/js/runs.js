/** The list of runs: goals, states and costs. */

import { get, part } from "./api.js";
import { empty, failed, fill, h, loading, poll, turns } from "./dom.js";
import { ago, count, dollars, duration, several } from "./format.js";
import { keys } from "./keys.js";
import { choose, place } from "./place.js";
import { startRun } from "./start.js";

const STATUSES = ["", "running", "queued", "interrupted", "forked", "rewound", "waiting", "finished", "limited", "failed", "cancelled"];
const EVERY = 3000;

export function runsView(main) {
  const turn = turns();
  let pages = 1;
  let drawn = "";
  const { chosen } = place();
  const words = h("input", { type: "search", id: "filter", placeholder: "Filter by goal, agent, session, tag, id", value: chosen.get("words") ?? "", autocomplete: "off", oninput: () => draw() });
  const status = h("select", { id: "status", onchange: () => { pages = 1; load(); } },
    STATUSES.map((one) => h("option", { value: one, selected: one === (chosen.get("status") ?? "") }, one || "any status")));
  const list = h("div", { class: "list" }, loading("runs"));
  const total = h("p", { class: "total", role: "status" });
  fill(main, h("header", { class: "viewhead" }, h("h1", {}, "Runs"), h("div", { class: "filters" },
    h("label", { class: "unseen", for: "filter" }, "Filter"), words, h("label", { class: "unseen", for: "status" }, "Status"), status)), list, total);
  document.title = "Runs · taofold";

  let items = [];
  let more = null;
  async function load() {
    const mine = turn();
    try {
      const query = `status=${part(status.value)}&limit=${50 * pages}`;
      const page = await get(`/console/runs?${query}`);
      if (!mine()) return;
      items = page.items;
      more = page.next;
      draw();
    } catch (error) {
      if (!mine()) return;
      drawn = "";
      if (error.status === 401) document.dispatchEvent(new CustomEvent("signedout"));
      else fill(list, failed(error, load));
    }
  }

  function draw() {
    const wanted = words.value.trim().toLowerCase();
    choose({ words: words.value, status: status.value });
    const shown = items.filter((run) => !wanted || `${run.goal} ${run.agent} ${run.session} ${tags(run)} ${run.id} ${run.status}`.toLowerCase().includes(wanted));
    const sign = JSON.stringify([shown, wanted, items.length, more, Math.floor(Date.now() / 60000)]);
    if (sign === drawn) return;
    drawn = sign;
    const focused = document.activeElement?.getAttribute?.("data-run");
    // The filter searches the loaded runs; further runs can be loaded.
    const older = more !== null && h("button", { type: "button", class: "more", onclick: () => { pages += 1; load(); } }, "Older runs");
    if (!shown.length) {
      total.textContent = "";
      if (items.length || status.value) fill(list, empty("Nothing fits", `None of the ${items.length} loaded runs matches.`,
        h("button", { type: "button", onclick: () => { words.value = ""; status.value = ""; load(); } }, "Show all runs"), older));
      else fill(list, empty("No runs yet", "A run is one goal that an agent works on. Its thoughts and actions appear here.",
        h("button", { type: "button", class: "primary", onclick: () => startRun() }, "Start a run")));
      return;
    }
    fill(list, h("ol", { class: "rows" }, shown.map(row)));
    if (older) list.append(older);
    const usd = shown.reduce((sum, run) => sum + (run.usd ?? 0), 0);
    const unpriced = shown.reduce((sum, run) => sum + (run.usd === null ? run.tokens : 0), 0);
    const tokens = shown.reduce((sum, run) => sum + (run.tokens ?? 0), 0);
    total.textContent = `${several(shown.length, "run")} · ${count(tokens)} tokens · ${dollars(usd, unpriced)}`;
    if (focused) list.querySelector(`[data-run="${CSS.escape(focused)}"]`)?.focus();
  }

  const stop = poll(load, EVERY);
  const unbind = keys({ "/": () => words.focus() });
  return () => {
    turn();
    stop();
    unbind();
  };
}

function tags(run) {
  return Object.entries(run.tags ?? {}).map(([name, value]) => `${name}=${value}`).join(" ");
}

function row(run) {
  const how = run.waiting_for ? run.waiting_for.replace("awaiting_", "needs ") : run.status;
  return h("li", {}, h("a", { class: "row entry", href: `#/runs/${part(run.id)}`, "data-run": run.id },
    h("span", { class: `pill ${run.status}` }, how),
    h("span", { class: "what" }, h("span", { class: "goal" }, run.goal), h("span", { class: "by" }, `${run.agent || "agent"}${run.session ? ` · ${run.session}` : ""}${tags(run) && ` · ${tags(run)}`}`,
      h("span", { class: "brief" }, ` · ${several(run.steps ?? 0, "step")} · ${dollars(run.usd)} · ${duration((run.seconds ?? 0) * 1000)}`))),
    h("span", { class: "num" }, several(run.steps ?? 0, "step")),
    h("span", { class: "num" }, `${count(run.tokens ?? 0)} tok`),
    h("span", { class: "num" }, dollars(run.usd)),
    h("span", { class: "num" }, duration((run.seconds ?? 0) * 1000)),
    h("time", { class: "when", datetime: new Date(run.created_at).toISOString() }, ago(run.created_at))));
}
