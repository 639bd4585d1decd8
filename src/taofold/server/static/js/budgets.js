/** Budgets of many runs: the use of each in its present period, and the lift of one. */

import { post } from "./api.js";
import { meter } from "./charts.js";
import { empty, h, loading, view } from "./dom.js";
import { count, dollars, percent, visible } from "./format.js";
import { fresh } from "./loops.js";
import { sending } from "./place.js";

export function budgetsView(main) {
  const list = h("div", {}, loading("budgets"));
  view(main, "Budgets", "Dollars and tokens that many runs share in a period (UTC).", list);
  return fresh(list, "/budgets", ({ items }) => (items.length
    ? h("ol", { class: "rows" }, items.map(row))
    : empty("No budgets", "Add `budgets:` to the policy file of this server. Amounts of users, agents and tags appear with their first call.")));
}

const state = (one) => (one.share >= 1 ? ["failed", "used up"] : one.share >= one.warn ? ["waiting", "nearly used up"] : ["finished", "free"]);

/** Returns a budget; a caller with the right can open it and lift it. */
function row(one) {
  const [kind, word] = state(one);
  const amounts = [one.usd != null && `${dollars(one.spent_usd)} of ${dollars(one.usd)}`, one.tokens != null && `${count(one.spent_tokens)} of ${count(one.tokens)} tokens`,
    one.unpriced_tokens > 0 && `${count(one.unpriced_tokens)} tokens without a price`].filter(Boolean).join(", ");
  const head = [h("span", { class: `pill ${kind}` }, word),
    h("span", { class: "what" }, h("span", { class: "goal" }, visible(one.name)), h("span", { class: "by mono" }, visible(one.scope))),
    h("span", { class: "used" }, meter(one.share), h("span", { class: "num" }, `${percent(one.share)}: ${amounts}`)),
    h("span", { class: "when" }, "per ", one.period, ", until ", h("time", { datetime: one.until }, one.until.slice(0, 16).replace("T", " ")), " UTC")];
  const lifted = one.lifted_by && h("p", { class: "lead lifted" }, `Lifted once by ${visible(one.lifted_by)}${one.lifted_reason ? `: ${visible(one.lifted_reason)}` : ""}. The amount includes it.`);
  return h("li", { class: "entry" }, h("div", { class: "row budget" }, head), lifted,
    one.may_lift && h("details", { class: "lift", "data-hold": true }, h("summary", {}, "Lift once"), lift(one)));
}

function lift(one) {
  const wrong = h("p", { class: "wrong", role: "alert" });
  const reason = h("input", { name: "reason", autocomplete: "off" });
  const send = sending(wrong, () => post("/budgets/lift", { name: one.name, scope: one.scope, reason: reason.value }),
    "Lifted: the amount may be spent once more in this period.");
  return h("form", { class: "fields", onsubmit: send },
    h("label", {}, h("span", {}, "Reason, for the log"), reason),
    h("div", { class: "buttons" }, h("button", { class: "primary", "data-do": "lift" }, "Lift once")), wrong);
}
