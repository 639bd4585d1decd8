/** The times of a run: calls and waits as bars over one axis, with costs. */

import { get, part } from "./api.js";
import { empty, h, loaded, s } from "./dom.js";
import { count, cut, dollars, duration } from "./format.js";
import { keys } from "./keys.js";

const MOST = 500;
const LEAST = 0.6; // of 100: the minimum visible width
const WORDS = { model: "models", tool: "tools", wait: "waiting" };

export function timesView(main, id) {
  const leave = loaded(main, "the times", () => Promise.all([get(`/runs/${part(id)}`), get(`/runs/${part(id)}/spans`)]), ([run, { items }]) => {
    document.title = `Times of ${run.goal.slice(0, 50)} · taofold`;
    return draw(run, items);
  });
  const unbind = keys({ w: () => (location.hash = `#/runs/${part(id)}`) });
  return () => {
    leave();
    unbind();
  };
}

/**
 * Returns the place of a moment on an axis from 0 to 100. Work keeps its proportions; a time in
 * which nothing ran (a wait of days) takes at most a tenth of all work.
 */
export function axis(spans) {
  const work = spans.filter((one) => one.type !== "wait").sort((a, b) => a.start - b.start);
  const busy = [];
  for (const { start, end } of work) {
    const last = busy[busy.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else busy.push([start, end]);
  }
  const worked = busy.reduce((sum, [from, to]) => sum + to - from, 0);
  const gap = Math.max(1, worked / 10);
  const first = Math.min(...spans.map((one) => one.start));
  const final = Math.max(...spans.map((one) => one.end));
  const marks = [[first, 0]];
  const reach = (at, most) => {
    const [before, place] = marks[marks.length - 1];
    if (at > before) marks.push([at, place + Math.min(at - before, most)]);
  };
  for (const [from, to] of busy) {
    reach(from, gap);
    reach(to, Infinity);
  }
  reach(final, gap);
  const whole = Math.max(1, marks[marks.length - 1][1]);
  return (at) => {
    const after = marks.findIndex(([moment]) => moment >= at);
    if (after <= 0) return after < 0 ? 100 : 0;
    const [[from, low], [to, high]] = [marks[after - 1], marks[after]];
    return (100 * (low + ((at - from) / (to - from)) * (high - low))) / whole;
  };
}

function draw(run, items) {
  const sums = {};
  for (const one of items) sums[one.type] = (sums[one.type] ?? 0) + one.end - one.start;
  const lead = Object.entries(WORDS).filter(([type]) => sums[type] !== undefined).map(([type, name]) => `${name} ${duration(sums[type])}`).join(" · ");
  const shown = items.slice(0, MOST);
  const place = items.length ? axis(shown) : null;
  return [
    h("p", { class: "crumbs" }, h("a", { href: `#/runs/${part(run.id)}` }, "The run"), " / times"),
    h("header", { class: "viewhead" }, h("h1", {}, cut(run.goal, 120)), h("p", { class: "lead" }, lead, lead && " · ", `${count(run.tokens)} tokens · ${dollars(run.usd)}`)),
    items.length
      ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Calls and waits" }, h("table", { class: "table times" },
          h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "n" }, "step"), h("th", { scope: "col" }, "call"), h("th", { scope: "col", class: "n" }, "took"), h("th", { scope: "col", class: "axis" }, "when"),
            ["tokens", "cost"].map((name) => h("th", { scope: "col", class: "n" }, name)))),
          h("tbody", {}, shown.map((one) => row(one, place)))))
      : empty("No calls yet", "Model calls, tool calls and waits appear here when they end."),
    items.length > MOST && h("p", { class: "lead" }, `and ${items.length - MOST} more`),
  ];
}

function row(one, place) {
  const wide = Math.max(LEAST, place(one.end) - place(one.start));
  const from = Math.min(place(one.start), 100 - wide);
  const bad = !["success", "ended", "partial", "open"].includes(one.status);
  const name = one.type === "wait" ? `waits: ${one.name.replace("awaiting_", "").replaceAll("_", " ")}` : one.name || one.type;
  return h("tr", {}, h("td", { class: "n" }, one.step || ""),
    h("th", { scope: "row" }, one.run ? h("a", { class: "mono", href: `#/runs/${part(one.run)}` }, name) : h("span", { class: "mono" }, name),
      bad && h("span", { class: "wrong" }, ` ${one.status}`), one.tokens > 0 && h("small", { class: "narrow" }, `${count(one.tokens)} tokens · ${dollars(one.usd)}`)),
    h("td", { class: "n" }, one.status === "open" ? "still" : one.type === "limit" ? "" : duration(one.end - one.start)),
    h("td", { class: "axis" }, s("svg", { class: "span", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      s("rect", { class: bad ? "bad" : one.type, x: from.toFixed(2), y: 1, height: 8, width: wide.toFixed(2) }))),
    h("td", { class: "n" }, one.tokens ? count(one.tokens) : ""), h("td", { class: "n" }, one.usd ? dollars(one.usd) : ""));
}
