/** Does it get better? The learning curve over loops, and the registry's figures. */

import { get } from "./api.js";
import { line } from "./charts.js";
import { empty, failed, fill, h, loading } from "./dom.js";
import { count, dollars } from "./format.js";

const LAST = 40;

export function learningView(main) {
  let left = false;
  const body = h("div", {}, loading("figures"));
  fill(main, h("header", { class: "viewhead" }, h("h1", {}, "Learning"), h("p", { class: "lead" }, "Whether what was learnt makes later loops shorter.")), body);
  document.title = "Learning · taofold";

  async function load() {
    const quiet = (promise, instead) => promise.catch((error) => {
      if (error.status === 404 || error.status === 403) return instead;
      throw error;
    });
    try {
      const [loops, metrics, totals] = await Promise.all([
        quiet(get("/loops"), { items: [] }), quiet(get("/patterns/metrics"), {}), get("/console/totals")]);
      if (!left) fill(body, draw(loops.items, metrics, totals));
    } catch (error) {
      if (!left) fill(body, failed(error, load));
    }
  }
  load();
  return () => (left = true);
}

function draw(loops, metrics, totals) {
  const ended = loops.filter((one) => one.status === "completed" && one.iterations > 0).slice(0, LAST).reverse();
  const others = loops.filter((one) => one.status !== "completed").length;
  const shares = Object.entries(totals.statuses);
  return [h("div", { class: "panels" },
    h("section", { class: "panel wide" }, h("h2", {}, "Learning curve"), ended.length
      ? [h("p", { class: "lead" }, "Iterations until the gates passed, by loop, oldest first. The dashed line is the mean so far.",
            others > 0 && ` ${count(others)} that did not complete are not in it.`),
          line(ended.map((one, i) => ({ y: one.iterations, label: `${one.task.slice(0, 40)}`, short: i + 1 })), { title: "Iterations by loop", wide: 1120, second: means(ended), names: ["iterations", "mean so far"] })]
      : empty("No loop has completed yet", "The curve begins with the first one.")),
    h("section", { class: "panel" }, h("h2", {}, "Runs"), h("dl", { class: "facts" },
      [["runs", count(totals.runs)], ...shares.map(([name, n]) => [name, count(n)]), ["model calls", count(totals.model_calls)], ["tool calls", count(totals.tool_calls)],
        ["tokens", count(totals.tokens)], ["cost", dollars(totals.usd)]].map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      totals.runs > totals.measured && h("p", { class: "lead" }, `Measured over the newest ${totals.measured}.`)),
    h("section", { class: "panel" }, h("h2", {}, "Patterns"), Object.keys(metrics).length
      ? figures(metrics) : h("p", { class: "lead" }, "No pattern was ever extracted here.")))];
}

function means(loops) {
  let sum = 0;
  return loops.map((one, i) => ({ x: i, y: (sum += one.iterations) / (i + 1) }));
}

/** Whatever the registry measures, named as it names it; nested figures under their own heading. */
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
