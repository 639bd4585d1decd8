/** Ralph loops: gates, iterations, and quality over time. */

import { get, part } from "./api.js";
import { line } from "./charts.js";
import { empty, failed, fill, h, loading, poll, turns, view } from "./dom.js";
import { ago, cut, dollars, duration, percent, several } from "./format.js";

const EVERY = 4000;

/** Loads `path` into `node` with `draw` repeatedly while it is shown. */
export function fresh(node, path, draw, every = EVERY) {
  const turn = turns();
  const typing = () => node.querySelector("[data-hold][open], input:focus, textarea:focus");
  let drawn = "";
  async function load() {
    const mine = turn();
    try {
      const said = await get(path);
      const sign = JSON.stringify(said);
      if (!mine() || sign === drawn || typing()) return;
      drawn = sign;
      fill(node, draw(said));
    } catch (error) {
      if (!mine() || typing()) return;
      drawn = "";
      const nothing = error.status === 404 || error.status === 403;
      if (nothing) stop();
      fill(node, nothing ? empty("Nothing to see here", error.message) : failed(error, load));
    }
  }
  const stop = poll(load, every);
  return () => {
    turn();
    stop();
  };
}

export function loopsView(main) {
  const list = h("div", {}, loading("loops"));
  view(main, "Loops", "Loops run an agent until a command proves that the work is done.", list);
  return fresh(list, "/loops", ({ items }) => (items.length
    ? h("ol", { class: "rows" }, items.map(row))
    : empty("No loops yet", "Start one with: taofold loop \"fix the tests\" --completion \"pytest -q\"")));
}

function row(loop) {
  return h("li", {}, h("a", { class: "row loop entry", href: `#/loops/${part(loop.id)}` },
    h("span", { class: `pill ${loop.status}` }, loop.status.replaceAll("_", " ")),
    h("span", { class: "what" }, h("span", { class: "goal" }, loop.task), h("span", { class: "by mono" }, loop.id)),
    h("span", { class: "num" }, `${loop.iterations} of ${several(loop.max_iterations, "iteration")}`),
    h("span", { class: "num" }, loop.quality == null ? "no measure" : `quality ${percent(loop.quality)}`),
    h("time", { class: "when", datetime: String(loop.started_at) }, ago(loop.started_at))));
}

export function loopView(main, id) {
  fill(main, loading("the loop"));
  return fresh(main, `/loops/${part(id)}`, (loop) => {
    document.title = `${loop.task.slice(0, 60)} · taofold`;
    const steps = loop.steps ?? [];
    const measured = steps.filter((one) => one.quality != null);
    return h("article", {},
      h("header", { class: "runhead" },
        h("p", { class: "crumbs" }, h("a", { href: "#/loops" }, "Loops"), " / ", h("span", { class: "mono" }, id)),
        h("div", { class: "title" }, h("h1", { class: "goal" }, loop.task), h("div", { class: "title-side" }, h("span", { class: `pill ${loop.status}` }, loop.status.replaceAll("_", " ")))),
        loop.reason && h("p", { class: "by" }, loop.reason)),
      h("div", { class: "panels" },
        h("section", { class: "panel" }, h("h2", {}, "Quality"), measured.length
          ? line(measured.map((one) => ({ y: Math.round(100 * one.quality), label: `iteration ${one.number}`, short: one.number })), { title: "Share of checks that pass, by iteration", top: 100, unit: " %" })
          : h("p", { class: "lead" }, "No measurements yet.")),
        h("section", { class: "panel" }, h("h2", {}, "Gates"), (loop.gates ?? []).map((gate) => h("div", { class: "gate" },
          h("span", { class: gate.passed ? "ok" : "no" }, gate.passed ? "passes" : gate.passed === null ? "not run" : "fails"),
          h("code", {}, gate.command), h("span", {}), h("small", { class: "lead" }, gate.passed_before ? "passed before iteration 1" : "failed before iteration 1")))),
        h("section", { class: "panel wide" }, h("h2", {}, "Iterations"), steps.length ? table(steps, loop.best) : h("p", { class: "lead" }, "The first one has not ended.")),
        loop.lessons?.text && h("section", { class: "panel wide" }, h("h2", {}, "Lessons from earlier loops"), h("pre", { tabindex: 0 }, loop.lessons.text)),
        loop.lessons?.control && h("section", { class: "panel" }, h("h2", {}, "Control"), h("p", {}, "This is a control loop: it was chosen at random to get no lessons, so that their benefit can be measured."))));
  });
}

const files = (step) => (step.changed ?? []).slice(0, 4).join(", ") || "nothing";

function table(steps, best) {
  const heads = [["#"], ["gates"], ["quality", "n"], ["changed"], ["output"], ["time", "n"], ["cost", "n"]];
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Iterations" }, h("table", { class: "table" },
    h("thead", {}, h("tr", {}, heads.map(([one, kind]) => h("th", { scope: "col", class: kind }, one)))),
    h("tbody", {}, steps.map((one) => h("tr", {},
      h("td", {}, one.run ? h("a", { href: `#/runs/${part(one.run)}`, "aria-label": `Run of iteration ${one.number}` }, one.number) : one.number),
      h("td", {}, one.tampered ? "tampered" : one.passed ? "pass" : "fail", one.number === best && h("span", { class: "flag" }, "kept")),
      h("td", { class: "n" }, percent(one.quality)),
      h("td", { class: "mono" }, one.diff ? h("details", {}, h("summary", {}, files(one)), h("pre", { tabindex: 0 }, one.diff)) : files(one)),
      h("td", {}, cut(one.said || one.status || "", 140)),
      h("td", { class: "n" }, duration((one.seconds ?? 0) * 1000)),
      h("td", { class: "n" }, dollars(one.usd)))))));
}
