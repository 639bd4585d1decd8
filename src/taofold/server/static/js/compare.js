/** Two runs side by side: their usage, their steps and their files. */

import { get, part } from "./api.js";
import { fill, h, loaded, loading, toast } from "./dom.js";
import { ago, brief, conflicts, count, cut, dollars, duration, pretty, several, visible } from "./format.js";
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
      h("span", { class: `pill ${one.status}` }, one.status), h("span", {}, cut(one.goal, 90), h("br"), h("small", { class: "by" }, h("span", { class: "mono" }, one.id), ` · ${one.agent || "agent"} · ${ago(one.created_at)}`))))) : h("li", { class: "lead" }, "There is no other run."));
  } catch (error) {
    dialog.close();
    toast(error.message, "bad");
  }
}

export function compareView(main, first, second) {
  return loaded(main, "two runs", () => Promise.all([
    ...[first, second].map(async (id) => ({ run: await get(`/runs/${part(id)}`), state: await get(`/runs/${part(id)}/state`) })),
    get(`/runs/${part(first)}/files?other=${part(second)}`),
  ]), ([one, two, files]) => {
    document.title = "Two runs · taofold";
    return [draw([one, two]), filesOf(files)];
  });
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
  const row = (name, cells, differs) => h("tr", { class: differs ? "differs" : "" }, h("th", { scope: "row" }, name), cells.map((cell, n) => h("td", { "data-run": runs[n].id }, cell)));
  return [
    h("header", { class: "viewhead" }, h("h1", {}, "Two runs"), h("p", { class: "lead" }, parted < 0 ? "Every step is the same." : `The first difference is at step ${parted + 1}.`)),
    h("div", { class: "scroll", tabindex: 0 }, h("table", { class: "table two" },
      h("thead", {}, h("tr", {}, h("td", { class: "names" }), runs.map((run) => h("th", { scope: "col" }, h("a", { href: `#/runs/${part(run.id)}` }, cut(run.goal, 120)), h("br"), h("small", { class: "mono" }, run.id))))),
      h("tbody", {}, FIGURES.map(([name, value]) => row(name, runs.map(value), name !== "active" && value(runs[0]) !== value(runs[1])))),
      h("tbody", {}, rows.map((cells, n) => row(`step ${n + 1}`, cells.map(step), said(cells[0]) !== said(cells[1])))),
      h("tbody", {}, row("answer", runs.map((run) => answer(run)), pretty(runs[0].output) !== pretty(runs[1].output))))),
  ];
}

/** The files that the runs stored, with the lines that differ side by side. */
function filesOf(files) {
  if (!files.stored) return "";
  const rows = sides(files.patch);
  return h("section", { class: "files", "aria-label": "Files" },
    h("h2", {}, files.changes.length ? `${several(files.changes.length, "file")} ${files.changes.length === 1 ? "differs" : "differ"}` : "The same files"),
    h("ul", { class: "mono changes" }, files.changes.map((one) => h("li", {}, h("span", { class: "kind" }, one.kind), ` ${one.path}`))),
    rows.length > 0 && h("div", { class: "scroll", tabindex: 0 }, h("table", { class: "table two lines" }, h("tbody", {}, rows.map((row) => ("head" in row
      ? h("tr", {}, h("th", { scope: "rowgroup", colspan: 2 }, row.head))
      : h("tr", {}, cell(row.before, row.after === row.before ? "same" : "del"), cell(row.after, row.after === row.before ? "same" : "ins"))))))));
}

const cell = (text, mark) => h("td", { class: text === undefined ? "none" : mark }, text ?? "");

/** Returns a unified diff as rows of two sides: `{before, after}`, or `{head}` for a place. Pure. */
export function sides(patch) {
  const rows = [];
  let removed = [];
  let added = [];
  const flush = () => {
    for (let n = 0; n < Math.max(removed.length, added.length); n += 1) rows.push({ before: removed[n], after: added[n] });
    removed = [];
    added = [];
  };
  let inside = false;
  for (const line of patch.split("\n")) {
    if (line.startsWith("diff --git ")) inside = false;
    if (inside && line.startsWith("-")) removed.push(line.slice(1));
    else if (inside && line.startsWith("+")) added.push(line.slice(1));
    else {
      flush();
      if (line.startsWith("@@")) inside = true;
      if (line.startsWith("@@")) rows.push({ head: line });
      else if (line.startsWith("diff --git ")) rows.push({ head: named(line.slice(11)) });
      else if (inside && line.startsWith(" ")) rows.push({ before: line.slice(1), after: line.slice(1) });
    }
  }
  flush();
  return rows;
}

/** Returns the path in `a/path b/path`, which has both sides in one length. */
const named = (both) => both.slice(0, (both.length - 1) / 2).replace(/^("?)a\//, "$1");

/** Returns the content of a step without times and durations. */
const said = (one) => one && JSON.stringify([one.thought?.content, one.actions?.map((a) => [a.tool, a.parameters]), one.observations?.map((o) => [o.extraction || o.result, o.conflicts?.files])]);

function step(one) {
  if (!one) return h("span", { class: "lead" }, "no such step");
  return [
    h("p", {}, h("span", { class: "type" }, one.thought?.type ?? ""), ` ${cut(one.thought?.content ?? "", 240)}`),
    (one.actions ?? []).map((action, n) => h("p", { class: "mono" }, h("strong", {}, action.tool), ` ${brief(action.parameters)}`, h("br"),
      cut(one.observations?.[n]?.extraction || pretty(one.observations?.[n]?.result), 200))),
    (one.observations ?? []).flatMap((seen) => conflicts(seen.conflicts)).map((text) => h("p", { class: "note failure conflict" }, visible(text))),
  ];
}

const answer = (run) => (typeof run.output === "string" ? h("div", { class: "md" }, markdown(run.output)) : run.error || (run.output === null ? h("span", { class: "lead" }, "no answer") : pretty(run.output)));
