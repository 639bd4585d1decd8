/** Two runs side by side: their usage and their steps. */

import { get, part } from "./api.js";
import { failed, fill, h, loading, toast } from "./dom.js";
import { brief, count, cut, dollars, duration, pretty } from "./format.js";
import { markdown } from "./markdown.js";

/** Lets the user choose a run to compare `run` with. */
export async function chooseOther(run) {
  if (document.querySelector("dialog[open]")) return;
  const list = h("ol", { class: "rows choices" }, h("li", {}, loading("runs")));
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "choosing" }, h("h2", { id: "choosing" }, "Compare with"), list,
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Not now")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  try {
    const { items } = await get("/runs?limit=50");
    const others = items.filter((one) => one.id !== run.id && !one.parent);
    others.sort((a, b) => Number(b.goal === run.goal) - Number(a.goal === run.goal));
    fill(list, others.length ? others.slice(0, 12).map((one) => h("li", {}, h("a", { class: "choice", href: `#/compare/${part(run.id)}/${part(one.id)}`, onclick: () => dialog.close() },
      h("span", { class: `pill ${one.status}` }, one.status), h("span", {}, cut(one.goal, 90))))) : h("li", { class: "lead" }, "There is no other run."));
  } catch (error) {
    dialog.close();
    toast(error.message, "bad");
  }
}

export function compareView(main, first, second) {
  let left = false;
  async function load() {
    fill(main, loading("two runs"));
    try {
      const pair = await Promise.all([first, second].map(async (id) => ({ run: await get(`/runs/${part(id)}`), state: await get(`/runs/${part(id)}/state`) })));
      if (!left) fill(main, ...draw(pair));
      document.title = "Two runs · taofold";
    } catch (error) {
      if (!left) fill(main, failed(error, load));
    }
  }
  load();
  return () => (left = true);
}

const FIGURES = [
  ["status", (run) => run.status], ["agent", (run) => run.agent], ["model", (run) => run.model], ["strategy", (run) => run.strategy],
  ["steps", (run) => count(run.steps)], ["model calls", (run) => count(run.model_calls)], ["tool calls", (run) => count(run.tool_calls)],
  ["tokens", (run) => count(run.tokens)], ["cost", (run) => dollars(run.usd)], ["active", (run) => duration((run.seconds ?? 0) * 1000)],
];

function draw(pair) {
  const runs = pair.map((one) => one.run);
  const steps = pair.map((one) => one.state.steps ?? []);
  const longest = Math.max(...steps.map((list) => list.length));
  const rows = Array.from({ length: longest }, (_, n) => steps.map((list) => list[n]));
  const parted = rows.findIndex(([a, b]) => said(a) !== said(b));
  const row = (name, cells, differs) => h("tr", { class: differs ? "differs" : "" }, h("th", { scope: "row" }, name), cells.map((cell) => h("td", {}, cell)));
  return [
    h("header", { class: "viewhead" }, h("h1", {}, "Two runs"), h("p", { class: "lead" }, parted < 0 ? "Every step is the same." : `The first difference is at step ${parted + 1}.`)),
    h("div", { class: "scroll", tabindex: 0 }, h("table", { class: "table two" },
      h("thead", {}, h("tr", {}, h("td", { class: "names" }), runs.map((run) => h("th", { scope: "col" }, h("a", { href: `#/runs/${part(run.id)}` }, cut(run.goal, 120)))))),
      h("tbody", {}, FIGURES.map(([name, value]) => row(name, runs.map(value), name !== "active" && value(runs[0]) !== value(runs[1])))),
      h("tbody", {}, rows.map((cells, n) => row(`step ${n + 1}`, cells.map(step), said(cells[0]) !== said(cells[1])))),
      h("tbody", {}, row("answer", runs.map((run) => answer(run)), pretty(runs[0].output) !== pretty(runs[1].output))))),
  ];
}

/** Returns the content of a step without times and durations. */
const said = (one) => one && JSON.stringify([one.thought?.content, one.actions?.map((a) => [a.tool, a.parameters]), one.observations?.map((o) => o.extraction || o.result)]);

function step(one) {
  if (!one) return h("span", { class: "lead" }, "no such step");
  return [
    h("p", {}, h("span", { class: "type" }, one.thought?.type ?? ""), ` ${cut(one.thought?.content ?? "", 240)}`),
    (one.actions ?? []).map((action, n) => h("p", { class: "mono" }, h("strong", {}, action.tool), ` ${brief(action.parameters)}`, h("br"),
      cut(one.observations?.[n]?.extraction || pretty(one.observations?.[n]?.result), 200))),
  ];
}

const answer = (run) => (typeof run.output === "string" ? h("div", { class: "md" }, markdown(run.output)) : run.error || pretty(run.output));
