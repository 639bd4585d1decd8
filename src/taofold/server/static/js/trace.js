/** The trace of a run: typed thoughts, calls with results, child runs, questions, the answer. */

import { part } from "./api.js";
import { asked, card, plain, together } from "./card.js";
import { announce, h } from "./dom.js";
import { brief, clock, conflicts, count, cut, dollars, duration, pretty, visible } from "./format.js";
import { readable } from "./json.js";
import { markdown } from "./markdown.js";
import { media } from "./media.js";
import { takeBack } from "./undone.js";

/**
 * Shows events below `root`.
 * `tell(event)` adds one, `timing(record)` adds the usage of a model call, `travel(seq)` dims later events.
 */
export function trace(root, run) {
  const groups = new Map();
  const calls = new Map();
  const cards = new Map();
  const batches = new Map();
  const settled = new Set();
  const steps = new Map();
  const costs = new Map();
  let chunks = "";
  let answer = null;
  const story = h("ol", { class: "story" });
  const ending = h("div", { class: "ending" });
  root.append(story, ending);
  groups.set(run, { list: story, last: null });

  /** Returns the node for steps of `of`; a child's steps go inside its call. */
  function group(of) {
    const known = groups.get(of);
    if (known) return known;
    const [, parent, key, index] = /^(.*)\.(.+)-(\d+)$/s.exec(of) ?? [null, run, "", ""];
    const caller = calls.get(`${parent}:${key.replaceAll("-", ".")}:${index}`);
    const list = h("ol", { class: "story nested" });
    const box = h("section", { class: "child", "aria-label": "Run of another agent" },
      h("p", { class: "childname" }, "Another agent works on this. ", h("a", { href: `#/runs/${part(of)}` }, "Open its run")), list);
    (caller?.body ?? group(parent === of ? run : parent).list).append(box);
    const made = { list, last: null };
    groups.set(of, made);
    return made;
  }

  function placed(node, event) {
    node.dataset.seq = event.seq ?? "";
    node.dataset.run = event.run;
    return node;
  }

  /** Inserts `node` in the order of the log: events and records arrive independently. */
  function enter(list, node, seq) {
    let next = null;
    for (let one = list.lastElementChild; one && Number(one.dataset.seq) > seq; one = one.previousElementSibling) next = one;
    list.insertBefore(node, next);
  }

  function thinking(event) {
    const thought = event.thought;
    const body = h("div", { class: "calls" });
    const meta = h("span", { class: "meta" }, costs.get(`${event.run}:${event.seq}`) ?? clock(event.timestamp));
    const because = thought.because.length ? ` because of step ${thought.because.join(", ")}` : "";
    const node = placed(h("li", { class: `step ${thought.type}`, tabindex: 0 },
      h("div", { class: "head" }, h("span", { class: "number" }, event.step), h("span", { class: "type" }, thought.type),
        thought.critical && h("span", { class: "flag" }, "critical"),
        thought.confidence != null && h("span", { class: "meta" }, `${Math.round(100 * thought.confidence)} % sure`), meta),
      h("p", { class: "thought" }, thought.content || "(no words)", because && h("small", {}, because)),
      thought.learned && h("p", { class: "thought" }, h("small", {}, `learned: ${thought.learned}`)),
      event.reasoning && h("details", { class: "reasoning" },
        h("summary", {}, `Thinking of the model, ${event.reasoning.length.toLocaleString("en")} characters`),
        h("pre", { tabindex: 0 }, event.reasoning)), body), event);
    const home = group(event.run);
    enter(home.list, node, event.seq);
    home.last = { node, body, meta };
    steps.set(`${event.run}:${event.seq}`, home.last);
    announce(`Step ${event.step}, ${thought.type}: ${cut(thought.content, 90)}`);
  }

  function body(event) {
    const home = group(event.run);
    return home.last?.body ?? home.list;
  }

  function call(event) {
    const known = calls.get(event.callId);
    if (known) return known;
    const state = h("span", { class: "how" }, event.type === "tool_start" ? "running" : "");
    const took = h("span", { class: "meta" });
    const extract = h("span", { class: "extract" });
    const inside = h("div", { class: "inside" }, h("h4", {}, "Parameters"), readable(event.args ?? {}));
    const more = h("details", {}, h("summary", {}, h("span", { class: "dot", "aria-hidden": "true" }), h("span", { class: "tool" }, event.tool),
      h("span", { class: "args" }, brief(event.args)), state, took), inside);
    const nest = h("div", { class: "nest" });
    const node = placed(h("div", { class: "call running" }, more, extract, nest), event);
    if (event.rationale) inside.prepend(h("p", { class: "why" }, event.rationale));
    body(event).append(node);
    const made = { node, state, took, extract, inside, body: nest, tool: event.tool };
    calls.set(event.callId, made);
    return made;
  }

  function result(event) {
    if (["denied", "expired"].includes(event.refused) && settled.has(event.callId)) return;
    const one = call(event);
    const ok = ["success", "partial"].includes(event.status);
    const open = conflicts(event.facts?.conflicts);
    one.node.className = `call ${event.refused ? "refused" : ok && !open.length ? "ok" : "bad"}`;
    one.state.textContent = event.refused || (open.length ? "open conflict" : event.status === "success" ? "" : event.status);
    one.extract.after(...open.map((text) => h("p", { class: "note failure conflict" }, visible(text))));
    one.took.textContent = event.refused ? "" : duration(event.durationMs);
    one.extract.textContent = cut(event.extraction || pretty(event.result), 220);
    one.inside.append(h("h4", {}, event.remark ? `Result (${event.remark})` : "Result"), readable(event.result), media(event.run, event.media) ?? "");
    if (!ok || open.length) announce(`${event.tool}: ${one.state.textContent}`);
  }

  function ask(event) {
    if (cards.has(event.actionId)) return;
    const node = placed(card(asked(event)), event);
    cards.set(event.actionId, node);
    (calls.get(event.callId)?.body ?? body(event)).append(node);
    join(event, node);
    announce(`Your decision is needed: ${event.summary || event.question || event.tool}`);
  }

  /** Adds one decision for all questions of a step. */
  function join(event, node) {
    if (!event.batch || !plain(asked(event))) return;
    const known = batches.get(event.batch) ?? { all: [], bar: null };
    batches.set(event.batch, known);
    known.all.push({ ...asked(event), node });
    if (known.bar) known.bar.update();
    else if (known.all.length === 2) {
      known.bar = together(() => known.all.filter((one) => cards.get(one.id) === one.node && one.node.isConnected));
      body(event).append(known.bar.node);
      known.bar.update();
    }
  }

  function resolved(event) {
    const reason = event.reason && event.decision !== "answered" ? `: ${event.reason}` : "";
    const words = event.decision === "answered" ? `answered by ${event.by}: ${event.reason}` : `${event.decision} by ${event.by}${reason}`;
    const note = placed(h("p", { class: `note ${event.decision}` }, h("span", { class: "tool" }, event.tool), ` ${words}`), event);
    const shown = cards.get(event.actionId);
    settled.add(event.callId);
    if (event.decision === "denied" || event.decision === "expired") note.append(h("span", { class: "with" }, ` ${brief(event.args)}`));
    if (shown) shown.replaceWith(note);
    else body(event).append(note);
    for (const known of batches.values()) known.bar?.update();
    announce(`${event.tool} ${event.decision}`);
  }

  function aside(event, kind, words) {
    body(event).append(placed(h("p", { class: `note ${kind}` }, words), event));
    announce(words);
  }

  /** Shows a tool's report beside its call; the next report or the result replaces it. */
  function progress(event) {
    const working = (one) => one.node.dataset.run === event.run && one.tool === event.tool && one.node.classList.contains("running");
    for (const one of [...calls.values()].filter(working)) one.state.textContent = `running · ${cut(event.text, 90)}`;
  }

  /** Folds away the events after `to`, which a rewind took back. */
  function rewound(event) {
    const home = group(event.run);
    const last = takeBack(root, home.list, event, [calls, cards, groups]);
    home.last = [...steps.values()].find((one) => one.node === last) ?? null;
    settled.clear();
    if (event.run === run) [answer, chunks] = [null, ""];
  }

  let wanted = "";
  let drawn = 0;
  function answering(text) {
    // The arrived text was the thought before a call, which the trace shows.
    if (!text) {
      answer?.parentElement.remove();
      answer = null;
      return;
    }
    if (!answer) {
      answer = h("div", { class: "text md" });
      ending.prepend(h("section", { class: "answer", "aria-label": "Answer" }, h("h3", {}, "Answer"), answer));
    }
    wanted = text;
    if (drawn) return;
    // During the stream once per frame, because each drawing reads the whole text.
    drawn = requestAnimationFrame(() => {
      drawn = 0;
      answer?.replaceChildren(...markdown(wanted));
    });
  }

  function tell(event) {
    switch (event.type) {
      case "thinking": return thinking(event);
      case "tool_start": return void call(event);
      case "tool_result": return result(event);
      case "confirmation_request": return ask(event);
      case "confirmation_resolved": return resolved(event);
      case "autonomous_action": return void call(event).node.querySelector("summary").append(h("span", { class: "flag" }, "without asking"));
      case "progress": return progress(event);
      case "rewound": return rewound(event);
      case "handed_off": return aside(event, "", `${event.before} hands over to ${event.agent}${event.reason && `: ${event.reason}`}`);
      case "limit_reached": return aside(event, "limit", `${event.last ? "Last turn" : "Limit reached"}: ${event.limit.replaceAll("_", " ")}`);
      case "note": return aside(event, event.alarming ? "failure" : "", event.text);
      case "loop_warning": return aside(event, "limit", `Repetition: ${event.detail || event.rule}`);
      case "answer_chunk":
        chunks = chunks.slice(0, event.offset) + event.text;
        return answering(chunks);
      case "answer":
        answering(event.text);
        return placed(answer.parentElement, event);
      case "error":
        return void ending.append(placed(h("p", { class: "note failure", role: "alert" }, `${event.code.replaceAll("_", " ")}: ${event.message}`), event));
      case "done":
        announce(`The run has ended: ${event.status}`);
        return ending.append(placed(h("p", { class: `done ${event.status}` },
          `${event.status}, ${event.stopReason.replaceAll("_", " ")} · ${event.steps} steps · ${count(event.tokens)} tokens · ${dollars(event.usd)} · ${duration(event.seconds * 1000)}`), event));
    }
  }

  /** Shows the notes of a flow: variables set, branches taken, failures. */
  function noted({ seq, event: { kind, data } }) {
    const words = {
      state: () => h("span", { class: "args" }, brief(data)),
      branch: () => [h("span", { class: "tool" }, data.node), " goes on at ", h("span", { class: "tool" }, data.to || "the next node")],
      loop_limit: () => [h("span", { class: "tool" }, data.node), ` stopped after ${data.iterations} turns`],
      node_failed: () => [h("span", { class: "tool" }, data.node), ` failed: ${cut(data.error, 220)}`],
    }[kind]?.();
    if (!words) return;
    const { list } = groups.get(run);
    const node = placed(h("li", { class: `flow note ${kind === "node_failed" ? "failure" : ""}` }, words), { seq, run });
    enter(list, node, seq);
  }

  let asking = null;
  /** Shows facts from the log besides the events: duration and costs of the model. */
  function timing(record) {
    const event = record.event;
    if (event.e === "noted") noted(record);
    if (event.e === "replied") asking = event;
    if (event.e !== "proposed" || !asking) return;
    const step = steps.get(`${run}:${record.seq}`);
    const used = asking.usage ?? {};
    const tokens = (used.input_tokens ?? 0) + (used.output_tokens ?? 0);
    const told = [duration(asking.ms), `${count(tokens)} tokens`, used.usd ? dollars(used.usd) : ""].filter(Boolean).join(" · ");
    costs.set(`${run}:${record.seq}`, `${told} · ${clock(record.at)}`);
    if (step) step.meta.textContent = costs.get(`${run}:${record.seq}`);
    asking = null;
  }

  /** Dims the events after `seq`; null is now. */
  function travel(seq) {
    for (const node of root.querySelectorAll(`[data-run="${CSS.escape(run)}"]`)) {
      const later = seq !== null && node.dataset.seq !== "" && Number(node.dataset.seq) > seq;
      node.classList.toggle("later", later);
    }
    root.classList.toggle("travelling", seq !== null);
  }

  return { tell, timing, travel };
}
