/** The dialog that starts a run. */

import { get, part, post } from "./api.js";
import { fill, h } from "./dom.js";
import { several } from "./format.js";
import { attached } from "./media.js";

const MOST_BYTES = 17e6;

/** Opens the dialog; `before` has the inputs of a run to repeat. */
export async function startRun(before = {}) {
  if (document.querySelector("dialog[open]")) return;
  const wrong = h("p", { class: "wrong", role: "alert" });
  const agents = h("select", { name: "agent", id: "agent" });
  const about = h("p", { class: "hint", id: "about" });
  const goal = h("textarea", { name: "goal", id: "goal", rows: 4, required: true, maxlength: 20000, placeholder: "What is the goal?" });
  const files = h("input", { type: "file", name: "files", id: "files", multiple: true });
  const model = h("select", { name: "model", id: "model" }, h("option", { value: "" }, "the agent's default"));
  const bound = (name, step) => h("input", { type: "number", id: `limit-${name}`, name, min: 0, step, inputmode: "decimal" });
  const limits = { steps: bound("steps", 1), tool_calls: bound("tool_calls", 1), tokens: bound("tokens", 1), usd: bound("usd", "any"), seconds: bound("seconds", "any") };
  const state = h("textarea", { id: "state", class: "mono", rows: 3, spellcheck: "false", placeholder: '{"name": "value"}' });
  const session = h("input", { name: "session", id: "session", autocomplete: "off", maxlength: 200, value: before.session || null });
  goal.value = before.goal ?? "";
  const go = h("button", { class: "primary" }, "Start");
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "starting" },
    h("form", { method: "dialog", onsubmit: send },
      h("h2", { id: "starting" }, "Start a run"),
      h("label", { for: "goal" }, "Goal"), goal,
      h("label", { for: "files" }, "Files ", h("small", {}, "(optional: images, PDFs, sound, text)")), files,
      h("label", { for: "agent" }, "Agent"), agents, about,
      h("label", { for: "session" }, "Session ", h("small", {}, "(optional: earlier turns are remembered)")), session,
      h("details", { class: "more-options" }, h("summary", {}, "Model, limits and state"),
        h("label", { for: "model" }, "Model"), model,
        h("fieldset", {}, h("legend", {}, "Limits ", h("small", {}, "(only tighter than the agent's own)")),
          Object.entries(limits).map(([name, field]) => h("label", { for: field.id }, name === "usd" ? "US dollars" : name.replaceAll("_", " "), field))),
        h("label", { for: "state" }, "State ", h("small", {}, "(initial data as JSON)")), state), wrong,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Not now"), go)));
  dialog.addEventListener("close", () => dialog.remove());
  goal.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) dialog.querySelector("form").requestSubmit();
  });
  document.body.append(dialog);
  dialog.showModal();
  goal.focus();

  // A slow answer must not start a run of another agent, so `send` waits for it.
  const offered = offer();
  async function offer() {
    try {
      const { items } = await get("/agents");
      fill(agents, items.map((one) => h("option", { value: one.name }, one.name)));
      model.append(...[...new Set(items.map((one) => one.model))].map((name) => h("option", { value: name }, name)));
      if (items.some((one) => one.name === before.agent)) agents.value = before.agent;
      const tell = () => {
        const one = items.find((agent) => agent.name === agents.value);
        const asking = one?.tools.filter((tool) => tool.requires_confirmation).length;
        const tools = one && `${several(one.tools.length, "tool")}${asking ? `, ${asking} need a confirmation` : ""}`;
        about.textContent = one ? [one.description, one.model, tools].filter(Boolean).join(" · ") : "";
      };
      agents.onchange = tell;
      tell();
      if (!items.length) wrong.textContent = "This server offers no agent: name one at `taofold serve AGENT`.";
    } catch (error) {
      wrong.textContent = error.message;
    }
  }

  async function send(event) {
    event.preventDefault();
    if (!goal.value.trim()) {
      wrong.textContent = "Enter a goal.";
      goal.focus();
      return;
    }
    const chosen = [...files.files];
    if (chosen.reduce((sum, file) => sum + file.size, 0) > MOST_BYTES) {
      wrong.textContent = "These files are too large: up to 17 MB can be sent.";
      files.focus();
      return;
    }
    go.disabled = true;
    try {
      await offered;
      const body = { goal: goal.value, agent: agents.value };
      if (model.value) body.model = model.value;
      const bounds = Object.entries(limits).filter(([, field]) => field.value !== "").map(([name, field]) => [name, Number(field.value)]);
      if (bounds.length) body.limits = Object.fromEntries(bounds);
      if (state.value.trim()) body.data = data(state.value);
      if (chosen.length) body.attachments = await Promise.all(chosen.map(attached));
      if (session.value.trim()) body.session = session.value.trim();
      const run = await post("/runs", body);
      dialog.close();
      location.hash = `#/runs/${part(run.id)}`;
    } catch (error) {
      wrong.textContent = error.message;
      go.disabled = false;
    }
  }
}

function data(text) {
  let value = null;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`The state is not JSON: ${error.message}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("The state must be a JSON object.");
  return value;
}
