/** The benefit of learning: the curve over loops, and the registry's figures. */

import { get } from "./api.js";
import { line } from "./charts.js";
import { empty, h, loaded, view } from "./dom.js";
import { count, dollars } from "./format.js";

const LAST = 40;

export function learningView(main) {
  const body = h("div");
  view(main, "Learning", "Do lessons make later loops shorter?", body);
  const quiet = (promise, instead) => promise.catch((error) => {
    if (error.status === 404 || error.status === 403) return instead;
    throw error;
  });
  return loaded(body, "figures", () => Promise.all([
    quiet(get("/loops"), { items: [] }), quiet(get("/patterns/metrics"), {}), get("/console/totals"), get("/console/costs")]),
  ([loops, metrics, totals, costs]) => draw(loops.items, metrics, totals, costs));
}

function draw(loops, metrics, totals, costs) {
  const ended = loops.filter((one) => one.status === "completed" && one.iterations > 0).slice(0, LAST).reverse();
  const others = loops.filter((one) => one.status !== "completed").length;
  const shares = Object.entries(totals.statuses);
  return [h("div", { class: "panels" },
    h("section", { class: "panel wide" }, h("h2", {}, "Learning curve"), ended.length
      ? [h("p", { class: "lead" }, "Iterations until the gates passed, by loop, oldest first. The dashed line is the mean so far.",
            others > 0 && ` Loops that did not complete are left out: ${count(others)}.`),
          line(ended.map((one, i) => ({ y: one.iterations, label: `${one.task.slice(0, 40)}`, short: i + 1 })), { title: "Iterations by loop", wide: 1120, second: means(ended), names: ["iterations", "mean so far"] })]
      : empty("No loop has completed yet", "The curve starts with the first completed loop.")),
    h("section", { class: "panel" }, h("h2", {}, "Runs"), h("dl", { class: "facts" },
      [["runs", count(totals.runs)], ...shares.map(([name, n]) => [name, count(n)]), ["model calls", count(totals.model_calls)], ["tool calls", count(totals.tool_calls)],
        ["tokens", count(totals.tokens)], ["cost", dollars(totals.usd, totals.unpriced)]].map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      totals.runs > totals.measured && h("p", { class: "lead" }, `Measured over the newest ${totals.measured}.`)),
    spent(costs),
    h("section", { class: "panel" }, h("h2", {}, "Patterns"), Object.keys(metrics).length
      ? figures(metrics) : h("p", { class: "lead" }, "No patterns yet.")))];
}

/** The costs of runs by day and by model. */
function spent({ days, models }) {
  const short = (day) => day.slice(5);
  const rows = models.map((one) => [one.model, one.runs, count(one.tokens), dollars(one.usd, one.unpriced)]);
  return h("section", { class: "panel wide" }, h("h2", {}, "Cost"),
    days.length ? [h("p", { class: "lead" }, "US dollars by day, of your newest runs."),
      line(days.map((one) => ({ y: one.usd, label: one.day, short: short(one.day) })), { title: "US dollars by day", wide: 1120 }),
      h("div", { class: "scroll", tabindex: 0 }, h("table", { class: "table" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "model"), ["runs", "tokens", "cost"].map((name) => h("th", { class: "n", scope: "col" }, name)))),
        h("tbody", {}, rows.map(([name, ...figures]) => h("tr", {}, h("th", { scope: "row" }, name), figures.map((figure) => h("td", { class: "n" }, figure)))))))]
      : h("p", { class: "lead" }, "No runs with costs yet."));
}

function means(loops) {
  let sum = 0;
  return loops.map((one, i) => ({ x: i, y: (sum += one.iterations) / (i + 1) }));
}

/** Shows all figures of the registry by their names; nested ones under a heading. */
function figures(values, depth = 0) {
  const simple = Object.entries(values).filter(([, value]) => value === null || typeof value !== "object");
  const nested = Object.entries(values).filter(([, value]) => value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length);
  const words = (name) => name.replaceAll("_", " ");
  const told = (value) => (typeof value === "number" && value % 1 ? value.toFixed(2) : String(value ?? "–"));
  return [
    simple.length && h("dl", { class: "facts" }, simple.map(([name, value]) => [h("dt", {}, words(name)), h("dd", {}, told(value))])),
    depth < 2 && nested.map(([name, value]) => [h("h4", {}, words(name)), figures(value, depth + 1)]),
  ];
}
