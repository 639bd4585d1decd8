/** Evals: results of agents by case, with intervals. */

import { get, part } from "./api.js";
import { meter } from "./charts.js";
import { empty, h, loaded, view } from "./dom.js";
import { ago, count, dollars, duration, percent, several } from "./format.js";

export function evalsView(main) {
  const list = h("div");
  view(main, "Evals", "Results of agents on cases with known answers.", list);
  return loaded(list, "evals", () => get("/console/evals"), ({ items }) => (items.length ? h("ol", { class: "rows" }, items.map((one) => h("li", {}, h("a", { class: "row eval entry", href: `#/evals/${part(one.id)}` },
    h("span", { class: "what" }, h("span", { class: "goal" }, one.name), h("span", { class: "by" }, one.reports.map((r) => r.agent).join(" against "))),
    h("span", { class: "num" }, one.reports.map((r) => percent(r.rate)).join(" · ")), h("time", { class: "when" }, ago(one.at))))))
    : empty("No eval has run here", "`taofold eval cases.yaml` runs an agent on cases and leaves its report here.")));
}

export function evalView(main, id) {
  return loaded(main, "the eval", () => get(`/console/evals/${part(id)}`), (one) => {
    document.title = `${one.name} · taofold`;
    return draw(one);
  });
}

function draw(one) {
  const names = [...new Set(one.reports.flatMap((report) => Object.keys(report.cases)))];
  const share = (report, name) => report.cases[name];
  return [
    h("header", { class: "viewhead" }, h("h1", {}, one.name), h("p", { class: "lead" }, h("a", { href: "#/evals" }, "All evals"), ` · ${ago(one.at)}`)),
    h("div", { class: "panels" }, one.reports.map((report) => h("section", { class: "panel" }, h("h2", {}, report.agent),
      h("p", { class: "summary" }, `${percent(report.rate)} pass`, h("small", {}, ` (95 % interval: ${percent(report.interval[0])} to ${percent(report.interval[1])})`)), meter(report.rate),
      h("dl", { class: "facts" }, [["cases", count(Object.keys(report.cases).length)], ["trials", count(report.trials.length)], ["tokens", count(report.tokens)], ["cost", dollars(report.usd)], ["time", duration(report.seconds * 1000)],
        ...Object.entries(report.scorers).map(([name, value]) => [name, percent(value)])].map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])))),
    one.comparisons.map((pair) => h("section", { class: "panel" }, h("h2", {}, `${pair.first} against ${pair.second}`),
      h("p", {}, `${pair.difference >= 0 ? "+" : "−"}${Math.abs(100 * pair.difference).toFixed(0)} points over ${several(pair.cases, "case")}; by chance alone so large a difference comes up in ${percent(pair.p)} of such comparisons.`)))),
    h("div", { class: "scroll", tabindex: 0 }, h("table", { class: "table" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "case"), one.reports.map((report) => h("th", { class: "n", scope: "col" }, report.agent)))),
      h("tbody", {}, names.map((name) => h("tr", { class: new Set(one.reports.map((r) => share(r, name))).size > 1 ? "differs" : "" }, h("th", { scope: "row" }, name),
        one.reports.map((report) => h("td", { class: "n" }, share(report, name) === undefined ? "–" : percent(share(report, name)),
          report.trials.filter((trial) => trial.case === name && trial.run).map((trial) => [" ", h("a", { href: `#/runs/${part(trial.run)}`, title: trial.scores.map((s) => `${s.scorer}: ${s.reason || s.value}`).join("; ") }, trial.passed ? "✓" : "✗", h("span", { class: "unseen" }, ` run ${trial.repetition + 1}`))])))))))),
  ];
}
