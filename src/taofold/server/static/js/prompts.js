/** The prompt of one model call of a run, and its difference from the previous call. */

import { get, part } from "./api.js";
import { empty, failed, fill, h, loading, turns } from "./dom.js";
import { count, cut, several } from "./format.js";
import { readable } from "./json.js";
import { keys } from "./keys.js";
import { choose, place } from "./place.js";

export function promptsView(main, id) {
  const turn = turns();
  let shown = null;
  let wanted = 0;
  async function load(number) {
    const mine = turn();
    wanted = number;
    if (!shown) fill(main, loading("the prompt"));
    try {
      const query = number ? `?n=${number}` : "";
      const [run, prompt] = await Promise.all([get(`/runs/${part(id)}`), get(`/runs/${part(id)}/prompt${query}`)]);
      if (!mine()) return;
      shown = prompt;
      wanted = prompt.number;
      choose({ n: prompt.number });
      fill(main, draw(run, prompt, load));
      document.title = `Prompt ${prompt.number} of ${run.goal.slice(0, 50)} · taofold`;
    } catch (error) {
      if (mine()) fill(main, error.status === 404 ? empty("No model call yet", "The prompt appears here after the first model call.") : failed(error, () => load(number)));
    }
  }
  const step = (by) => {
    const next = shown ? wanted + by : 0;
    if (next >= 1 && next <= shown.calls) load(next);
  };
  load(Number(place().chosen.get("n")) || 0);
  const unbind = keys({ p: () => (location.hash = `#/runs/${part(id)}`), "[": () => step(-1), "]": () => step(1) });
  return () => {
    turn();
    unbind();
  };
}

function draw(run, prompt, load) {
  const go = (name, number) => h("button", { type: "button", disabled: number < 1 || number > prompt.calls, onclick: () => load(number) }, name);
  const settings = Object.entries(prompt.settings).map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(" · ");
  const fresh = prompt.messages.slice(prompt.same);
  return [
    h("p", { class: "crumbs" }, h("a", { href: `#/runs/${part(run.id)}` }, "The run"), " / prompt"),
    h("header", { class: "viewhead" }, h("h1", {}, cut(run.goal, 120)),
      h("p", { class: "lead" }, [`call ${prompt.number} of ${prompt.calls}`, prompt.model, prompt.role, prompt.digest && `digest ${prompt.digest}`].filter(Boolean).join(" · ")),
      h("p", { class: "buttons" }, go("Call before", prompt.number - 1), go("Next call", prompt.number + 1))),
    prompt.missing ? empty("This prompt cannot be shown", prompt.missing) : h("div", { class: "prompt" },
      prompt.same > 0 && h("details", {}, h("summary", {}, `${several(prompt.same, "message")} as in the call before`), prompt.messages.slice(0, prompt.same).map((one, n) => message(one, n + 1))),
      prompt.dropped > 0 && h("p", { class: "lead" }, `${several(prompt.dropped, "message")} of the call before ${prompt.dropped === 1 ? "is" : "are"} not sent any more.`),
      fresh.map((one, n) => message(one, prompt.same + n + 1, prompt.same > 0)),
      h("details", {}, h("summary", {}, prompt.tools.length ? several(prompt.tools.length, "offered tool") : "No tool is offered natively"),
        prompt.tools.map((tool) => h("section", { class: "message" }, h("h2", {}, tool.name, prompt.allowed && !prompt.allowed.includes(tool.name) && h("small", {}, " not now")), h("p", {}, tool.description), readable(tool.parameters)))),
      prompt.schema && h("details", {}, h("summary", {}, "Schema of the reply"), readable(prompt.schema)),
      h("p", { class: "lead" }, settings ? `Settings: ${settings}` : "Settings: defaults of the model and its provider.")),
  ];
}

function message(one, number, fresh = false) {
  return h("section", { class: `message ${one.role} ${fresh ? "new" : ""}` },
    h("h2", {}, `${count(number)} · ${one.role}`, fresh && h("small", {}, " new")), one.parts.map(piece));
}

function piece(one) {
  if (one.type === "call") return h("div", {}, h("p", { class: "mono" }, h("strong", {}, one.name), ` ${one.id}`), readable(one.arguments));
  if (one.type === "result") return h("div", {}, h("p", { class: "mono" }, `result of ${one.id}`), readable(one.text));
  if (one.type === "thinking") return h("details", {}, h("summary", {}, "thinking"), h("pre", { tabindex: 0 }, one.text));
  return h("pre", { tabindex: 0 }, one.text);
}
