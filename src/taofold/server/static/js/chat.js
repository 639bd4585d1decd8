/** A session as a conversation: each run is a turn, and a new message begins the next run. */

import { get, part, post } from "./api.js";
import { announce, empty, fill, h, loaded, loading, turns, view } from "./dom.js";
import { ago, dollars } from "./format.js";
import { ENDED } from "./live.js";
import { markdown } from "./markdown.js";

const EVERY = 1500;

export function sessionsView(main) {
  const list = h("div");
  view(main, "Sessions", "Conversations. Each run knows the earlier runs of its session.", list);
  return loaded(list, "sessions", () => get("/runs?limit=200"), ({ items }) => {
    const last = new Map();
    for (const run of items) if (run.session && !last.has(run.session)) last.set(run.session, run);
    return last.size ? h("ol", { class: "rows" }, [...last].map(([name, run]) => h("li", {}, h("a", { class: "row session entry", href: `#/sessions/${part(name)}` },
      h("span", { class: `pill ${run.status}` }, run.status), h("span", { class: "what" }, h("span", { class: "goal" }, name), h("span", { class: "by" }, run.goal)), h("time", { class: "when" }, ago(run.created_at))))))
      : empty("No session yet", "Start a run with a session's name: the next run with the same name continues it.");
  });
}

export function sessionView(main, name) {
  const turn = turns();
  let agent = "";
  let timer = 0;
  const drawn = new Map();
  const talk = h("ol", { class: "talk", "aria-label": "Conversation" }, h("li", {}, loading("the conversation")));
  const text = h("textarea", { id: "message", rows: 2, maxlength: 20000, required: true, placeholder: "Write to the agent" });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const send = h("button", { class: "primary" }, "Send");
  const line = h("form", { class: "compose", onsubmit: say }, h("label", { class: "unseen", for: "message" }, "Message"), text, send);
  fill(main, h("header", { class: "viewhead" }, h("h1", {}, name), h("p", { class: "lead" }, h("a", { href: "#/sessions" }, "All sessions"))), talk, line, wrong);
  document.title = `${name} · taofold`;
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) line.requestSubmit();
  });

  async function load() {
    clearTimeout(timer);
    const mine = turn();
    try {
      const { items } = await get(`/runs?session=${part(name)}&limit=50`);
      if (!mine()) return;
      const runs = items.filter((run) => !run.parent).reverse();
      agent = runs.at(-1)?.agent ?? agent;
      if (!drawn.size) talk.replaceChildren();
      for (const run of runs) await draw(run, mine);
      if (!mine()) return;
      if (!runs.length) fill(talk, h("li", { class: "lead" }, "No messages yet."));
      if (runs.some((run) => !ENDED.includes(run.status))) timer = setTimeout(load, EVERY);
    } catch (error) {
      if (mine()) wrong.textContent = error.message;
    }
  }

  async function draw(run, mine) {
    const known = drawn.get(run.id);
    const sign = `${run.status}:${run.waiting_for}`;
    if (known?.sign === sign) return;
    const ended = ENDED.includes(run.status);
    const detail = ended ? await get(`/runs/${part(run.id)}`) : run;
    if (!mine()) return;
    const reply = !ended ? h("p", { class: "lead", role: "status" }, run.waiting_for ? "It waits for you: " : "At work …")
      : typeof detail.output === "string" ? h("div", { class: "md" }, markdown(detail.output)) : h("p", {}, detail.error || JSON.stringify(detail.output) || run.status);
    const more = h("a", { href: `#/runs/${part(run.id)}` }, run.waiting_for ? "open its question" : "steps of this run");
    const node = h("li", { class: "turn", "data-run": run.id }, h("div", { class: "mine" }, h("span", { class: "unseen" }, "You: "), run.goal),
      h("div", { class: "its" }, h("span", { class: "unseen" }, `${run.agent || "agent"}: `), reply, h("p", { class: "by" }, more, ended && ` · ${dollars(detail.usd)} · ${ago(run.created_at)}`)));
    if (known) known.node.replaceWith(node);
    else talk.append(node);
    drawn.set(run.id, { node, sign });
    if (known && ended) announce(`Answer: ${String(detail.output ?? detail.error).slice(0, 200)}`);
    node.scrollIntoView({ block: "nearest" });
  }

  async function say(event) {
    event.preventDefault();
    const goal = text.value;
    if (!goal.trim()) return;
    send.disabled = true;
    wrong.textContent = "";
    try {
      await post("/runs", { goal, session: name, ...(agent ? { agent } : {}) });
      if (text.value === goal) text.value = "";
      if (line.isConnected) await load();
    } catch (error) {
      wrong.textContent = error.code === "session_busy" ? "The agent is still working on your last message." : error.message;
    }
    send.disabled = false;
    text.focus();
  }

  load();
  return () => {
    turn();
    clearTimeout(timer);
  };
}
