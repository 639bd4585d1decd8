/** What another policy would have changed: a text, and its verdicts on stored calls. */

import { get, part, post } from "./api.js";
import { failed, fill, h, loading, turns, view } from "./dom.js";
import { count, several, visible } from "./format.js";

const WORDS = { allow: "allowed", ask: "asked", deny: "denied" };
const PERIODS = { "1d": "a day", "7d": "a week", "30d": "30 days", all: "all time" };
const option = ([value, text]) => h("option", { value }, text);

export function policyView(main) {
  const [texts, tests] = [turns(), turns()];
  const agents = h("select", { name: "agent" });
  const since = h("select", { name: "since" }, Object.entries(PERIODS).map(option));
  const text = h("textarea", { name: "policy", rows: 12, class: "mono", spellcheck: "false" });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const found = h("div", { class: "verdicts" });
  since.value = "30d";
  /** Uses a reply in its turn: a newer request and, for the text, what the user typed since drop it. */
  const use = (mine, reply, show) => void reply.then((said) => mine() && show(said), (error) => mine() && (fill(found), (wrong.textContent = error.message)));
  const clear = (...content) => (fill(found, content), (wrong.textContent = ""), tests());
  const restart = () => {
    clear();
    use(texts(), get(`/policy?agent=${part(agents.value)}`), (said) => (text.value = said.text));
  };
  const test = (event) => {
    event.preventDefault();
    const body = { policy: text.value, agent: agents.value, since: since.value };
    use(clear(loading("the verdicts")), post("/policy/test", body), (said) => fill(found, draw(said)));
  };
  agents.onchange = restart;
  text.oninput = () => void texts();
  view(main, "Policy", "What another policy would have changed in stored runs.",
    h("form", { class: "fields panel", onsubmit: test },
      h("label", {}, h("span", {}, "Agent"), agents), h("label", {}, h("span", {}, "Runs of"), since),
      h("label", {}, h("span", {}, "Policy file, from the policy in force"), text),
      h("div", { class: "buttons" }, h("button", { class: "primary", "data-do": "test" }, "Test"), h("button", { type: "button", onclick: restart }, "Start again")), wrong), found);
  const untouched = texts();
  get("/agents").then(({ items }) => {
    fill(agents, items.map(({ name }) => option([name, visible(name)])));
    if (untouched()) restart();
  }, (error) => fill(found, failed(error)));
  return () => [texts(), tests()];
}

/** Returns links to the runs of `RUN:SEQ`. */
const runs = (places) => places.map((place) => place.split(":")[0]).map((id, n) => [" ", h("a", { href: `#/runs/${part(id)}`, "aria-label": `Run ${id}` }, String(n + 1))]);
const why = (one) => [h("span", { class: "mono" }, visible(one.rule)), one.reason && ` ${visible(one.reason)}`];
const answers = (said) => Object.entries(said).map(([word, n]) => `${count(n)} ${WORDS[word] ?? word}`).join(", ");
const pill = (one) => h("span", { class: `pill ${one.direction === "loosened" ? "waiting" : "finished"}` }, one.direction);
const mono = (text) => h("span", { class: "mono" }, visible(text));
const links = (one) => [runs(one.examples), one.runs > one.examples.length && ` of ${count(one.runs)}`];

/** Columns: the head, and the content of a cell. On a narrow page each cell shows its head. */
const CALLS = [["Change", pill], ["Tool", (one) => mono(one.tool)], ["Verdict", (one) => `${WORDS[one.recorded]} → ${WORDS[one.now]}`],
  ["Calls", (one) => count(one.calls)], ["Answered", (one) => answers(one.answers) || "—"], ["Runs", links], ["Rule", why]];
const OTHERS = [["Change", pill], ["Effect", (one) => one.effect], ["Count", (one) => count(one.count)], ["Runs", links], ["Rule", why]];

function table(label, columns, rows) {
  return rows.length > 0 && h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, h("table", { class: "table" },
    h("thead", {}, h("tr", {}, columns.map(([head]) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, rows.map((one) => h("tr", {}, columns.map(([head, cell]) => h("td", { "data-head": head }, h("div", {}, cell(one)))))))));
}

function draw(said) {
  const same = Object.entries(said.unchanged).map(([word, n]) => `${count(n)} ${WORDS[word]}`).join(", ");
  const changes = said.changes.length + said.findings.length;
  const notes = [
    said.further > 0 && several(said.further, "more change"),
    said.uncovered.length > 0 && `No stored call meets: ${said.uncovered.map(visible).join(", ")}`,
    ...Object.entries(said.unjudged).map(([reason, n]) => `Not judged: ${several(n, "call")}: ${visible(reason)}`),
    ...said.limits.map((one) => `Not derived: ${visible(one)}`),
    said.untested.length > 0 && `Not tested: ${said.untested.map(visible).join(", ")}`,
    said.left_out > 0 && `Left out: ${several(said.left_out, "fork")} that a recheck made`,
  ].filter(Boolean);
  return [h("section", { class: "panel", "data-result": true },
    h("h2", {}, `${several(said.calls, "call")} of ${several(said.runs, "run")} judged`),
    h("p", { class: "lead" }, !changes && "Nothing changes. ", same && `Unchanged: ${same}.`),
    table("Changed calls", CALLS, said.changes),
    said.findings.length > 0 && h("h3", {}, "Answers, starts and model calls"),
    table("Changed answers, starts and model calls", OTHERS, said.findings),
    notes.length > 0 && h("ul", {}, notes.map((one) => h("li", { class: "lead" }, one))))];
}
