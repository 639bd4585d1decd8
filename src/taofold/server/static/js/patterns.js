/** Patterns of loops: success with its counts, and sources. */

import { part, post } from "./api.js";
import { line, meter } from "./charts.js";
import { empty, fill, h, loading, view } from "./dom.js";
import { ago, percent, pretty } from "./format.js";
import { fresh } from "./loops.js";
import { sending } from "./place.js";

export function patternsView(main) {
  const list = h("div", {}, loading("patterns"));
  view(main, "Patterns", "Lessons from loops, measured by their success in later loops.", list);
  return fresh(list, "/patterns", ({ items }) => (items.length
    ? h("ol", { class: "rows" }, items.map(row))
    : empty("No patterns yet", "Finished loops leave error fixes, approaches, templates and anti-patterns here.")));
}

/** Returns `17 of 18`, or a text if there is no outcome: never a rate without counts. */
function raw(one) {
  const known = one.successes + one.failures;
  return known ? `${one.successes} of ${known} (${percent(one.rate)})` : "no outcome yet";
}

const aside = (one) =>
  one.retired ? `retired: ${one.retired}` : [one.probation && "on probation", ...(one.tags ?? [])].filter(Boolean).join(" · ") || one.id;

function row(one) {
  return h("li", {}, h("a", { class: "row pattern entry", href: `#/patterns/${part(one.id)}` },
    h("span", { class: "pill" }, one.kind),
    h("span", { class: "what" }, h("span", { class: "goal" }, one.name), h("span", { class: "by" }, aside(one))),
    meter(one.rate), h("span", { class: "num" }, raw(one))));
}

/** Retires a pattern with a reason, or restores it. */
function judged(one, id) {
  const reason = h("input", { id: "why", maxlength: 300, required: true, placeholder: "reason for retiring it", autocomplete: "off" });
  const said = h("p", { class: "wrong", role: "alert" });
  const send = sending(said, () => post(`/patterns/${part(id)}/${one.retired ? "restore" : "retire"}`, one.retired ? {} : { reason: reason.value }),
    one.retired ? "The pattern is active again." : "The pattern is retired: loops do not get it.");
  return h("form", { class: "judged", onsubmit: send }, !one.retired && [h("label", { class: "unseen", for: "why" }, "Reason"), reason],
    h("button", { "data-do": one.retired ? "restore" : "retire" }, one.retired ? "Restore" : "Retire"), said);
}

/** Makes a field for every text and list of texts of `value`; `read()` returns the changed value. */
function fields(value, name) {
  const label = (field, what) => h("label", {}, h("span", {}, what), field);
  if (typeof value === "string") {
    const field = h("textarea", { rows: Math.min(12, value.split("\n").length + 1), name });
    field.value = value;
    return { node: label(field, name), read: () => field.value };
  }
  if (Array.isArray(value) && value.every((one) => typeof one === "string" && !one.includes("\n"))) {
    const field = h("textarea", { rows: value.length + 1, name });
    field.value = value.join("\n");
    return { node: label(field, `${name} (a line each)`), read: () => field.value.split("\n").filter((one) => one.trim()) };
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) return { node: null, read: () => value };
  const inner = Object.entries(value).filter(([key]) => key !== "kind").map(([key, one]) => [key, fields(one, name ? `${name} ${key}` : key)]);
  return { node: inner.map(([, one]) => one.node), read: () => ({ ...value, ...Object.fromEntries(inner.map(([key, one]) => [key, one.read()])) }) };
}

/** Rewrites a pattern. Outcomes of the earlier text no longer count. */
function rewrite(one, id) {
  const named = fields({ name: one.name, tags: one.tags ?? [] }, "");
  const body = fields(one.body ?? {}, "");
  const said = h("p", { class: "wrong", role: "alert" });
  const send = sending(said, () => post(`/patterns/${part(id)}/edit`, { ...named.read(), body: body.read() }), "Saved: loops get the new text.");
  return h("details", { class: "panel wide rewrite", "data-hold": true }, h("summary", {}, "Edit"), h("form", { class: "fields", onsubmit: send }, named.node, body.node,
    h("div", { class: "buttons" }, h("button", { class: "primary", "data-do": "save" }, "Save")), said));
}

export function patternView(main, id) {
  fill(main, loading("the pattern"));
  return fresh(main, `/patterns/${part(id)}`, (one) => {
    document.title = `${one.name} · taofold`;
    const trend = one.trend ?? [];
    const facts = [["kind", one.kind], ["outcomes", raw(one)], ["uses", one.usage], ["shown in loops", one.shown?.loops], ["iterations with it", one.shown?.mean?.toFixed?.(1)],
      ["control loops", one.held?.loops], ["iterations without", one.held?.mean?.toFixed?.(1)], ["on probation", one.probation ? "yes" : ""], ["tags", (one.tags ?? []).join(", ")], ["retired", one.retired]]
      .filter(([, value]) => value !== undefined && value !== null && value !== "");
    return h("article", {},
      h("header", { class: "runhead" }, h("p", { class: "crumbs" }, h("a", { href: "#/patterns" }, "Patterns"), " / ", h("span", { class: "mono" }, id)), h("div", { class: "title" }, h("h1", {}, one.name), judged(one, id))),
      h("div", { class: "panels" },
        h("section", { class: "panel" }, h("h2", {}, "Effect"), h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))])),
          trend.length > 1 && line(trend.map((t) => ({ y: Math.round(100 * t.rate), label: `after ${t.size}`, short: t.size })), { title: "Success rate by number of outcomes", top: 100, unit: " %" })),
        h("section", { class: "panel" }, h("h2", {}, "Lineage"), (one.lineage ?? []).length
          ? h("ol", { class: "lineage" }, one.lineage.map((entry) => h("li", {}, h("strong", {}, entry.what), entry.outcome && ` · ${entry.outcome}`,
              entry.loop && [" · ", h("a", { href: `#/loops/${part(entry.loop)}` }, entry.loop)], " ", h("time", {}, ago(entry.at)))))
          : h("p", { class: "lead" }, "No loop has used it yet.")),
        h("section", { class: "panel wide" }, h("h2", {}, "Content"), h("pre", { tabindex: 0 }, pretty(one.body ?? {})), rewrite(one, id))));
  });
}
