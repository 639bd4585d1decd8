/** The time slider: a tick for each event of the log, the state at each, and differences. */

import { get, part } from "./api.js";
import { difference } from "./difference.js";
import { announce, fill, h, s } from "./dom.js";
import { clock, cut, pretty } from "./format.js";
import { readable } from "./json.js";

const KINDS = {
  run_started: "begin", forked: "begin", resumed: "begin", rewound: "begin", proposed: "thought", replied: "model",
  started: "tool", started_once: "tool", observed: "tool", decided: "ask", resolved: "ask", parked: "ask",
  run_finished: "end", limit_hit: "limit", violated: "limit",
};

const TALL = { thought: 22, begin: 22, end: 22, ask: 18, limit: 18, tool: 14, model: 9 };

/**
 * `changed(seq | null)` gets the position of the slider, null is now; `chosen(at, against)` gets the values for
 * the address. `at` and `against` are the values in the address when the page was opened.
 */
export function timeline(run, { changed, fork, seen, chosen, at: opened = null, against = null }) {
  const records = [];
  const chart = s("svg", { class: "ticks", preserveAspectRatio: "none", viewBox: "0 0 1000 28", "aria-hidden": "true" });
  const range = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Event", oninput: () => move(Number(range.value)) });
  const label = h("p", { class: "where" });
  const panel = h("section", { class: "state", "aria-label": "State", tabindex: 0 });
  const press = (name, words, action, hint) => h("button", { type: "button", "data-do": name, title: hint, onclick: action }, words);
  const back = press("now", "Back to now", () => now(), "Esc");
  const hold = press("compare", "Compare from here", () => compare(), "c");
  const forking = press("fork", "Fork from here", () => fork(at()), "f");
  const bar = h("section", { class: "timeline", "aria-label": "Time slider" },
    h("div", { class: "rail" }, chart, range),
    h("div", { class: "controls" }, press("back", "‹", () => step(-1), "["), press("on", "›", () => step(1), "]"), label,
      h("span", { class: "buttons" }, hold, forking, back)));
  let held = against;
  let here = opened;
  let asked = 0;
  let drawing = 0;
  let showing = 0;

  const at = () => here ?? (records.length ? records[records.length - 1].seq : 0);

  /** Reads new records of the log and draws them. */
  let reading = null;
  let again = false;
  async function more() {
    if (reading) {
      again = true;
      return reading;
    }
    reading = read();
    try {
      await reading;
    } finally {
      reading = null;
    }
    if (again) {
      again = false;
      return more();
    }
    return undefined;
  }

  async function read() {
    let after = records.length ? records[records.length - 1].seq : -1;
    for (;;) {
      const page = await get(`/runs/${part(run)}/records?after=${after}&limit=500`);
      for (const record of page.items) {
        records.push(record);
        seen(record);
      }
      if (page.next === null || !page.items.length) break;
      after = page.items[page.items.length - 1].seq;
    }
    range.max = Math.max(0, records.length - 1);
    if (opened !== null && records.length) {
      // From the address; a number beyond the end means now.
      range.value = Math.max(0, records.findIndex((record) => record.seq >= opened));
      if (records[records.length - 1].seq < opened) [here, range.value] = [null, range.max];
      changed(here);
      opened = null;
      draw();
      await show();
    }
    draw();
    if (here === null) {
      range.value = range.max;
      await show();
    }
  }

  function draw() {
    const width = 1000 / Math.max(1, records.length);
    const thick = Math.min(9, Math.max(1.2, width * 0.6));
    const lines = {};
    records.forEach((record, index) => {
      const kind = KINDS[record.event.e] ?? (record.alarming ? "limit" : "other");
      const tall = TALL[kind] ?? 12;
      const left = (index + 0.5) * width - thick / 2;
      lines[kind] = `${lines[kind] ?? ""}M${left.toFixed(2)} ${26 - tall}h${thick.toFixed(2)}v${tall}h-${thick.toFixed(2)}z`;
    });
    const place = (seq) => (Math.max(0, records.findIndex((r) => r.seq === seq)) + 0.5) * width;
    chart.replaceChildren(
      ...Object.entries(lines).map(([kind, d]) => s("path", { class: `tick ${kind}`, d })),
      ...[["held", held], ["here", at()]].filter(([, seq]) => seq !== null)
        .map(([name, seq]) => s("line", { class: name, x1: place(seq), x2: place(seq), y1: 0, y2: 28 })),
    );
  }

  function move(index) {
    const record = records[index];
    if (!record) return;
    here = index === records.length - 1 && held === null ? null : record.seq;
    range.value = index;
    if (drawing) return;
    drawing = requestAnimationFrame(() => {
      drawing = 0;
      changed(here);
      chosen(here, held);
      draw();
      clearTimeout(showing);
      showing = setTimeout(show, 60); // a state is loaded only where the slider rests
    });
  }

  const step = (by) => move(Math.min(records.length - 1, Math.max(0, Number(range.value) + by)));

  function now() {
    if (here === null && held === null) return false;
    held = null;
    here = null;
    range.value = range.max;
    changed(null);
    chosen(null, null);
    draw();
    show();
    return true;
  }

  function compare() {
    held = held === null ? at() : null;
    if (held !== null) announce(`Comparing with event ${held}`);
    chosen(here, held);
    draw();
    show();
  }

  async function show() {
    const record = records[Number(range.value)];
    if (!record) return;
    const words = `event ${record.seq} · ${record.event.e.replaceAll("_", " ")} · ${clock(record.at)}`;
    label.textContent = held === null ? words : `${words}, against ${held}`;
    hold.textContent = held === null ? "Compare from here" : "Stop comparing";
    back.disabled = here === null && held === null;
    range.setAttribute("aria-valuetext", words);
    const mine = ++asked;
    try {
      const state = await load(record.seq);
      const other = held === null ? null : await load(held);
      if (mine !== asked) return;
      fill(panel, other === null ? told(state, record, here !== null) : held < record.seq ? compared(other, state, held, record.seq) : compared(state, other, record.seq, held));
    } catch (error) {
      if (mine === asked) fill(panel, h("p", { class: "wrong" }, error.message));
    }
  }

  const kept = new Map();
  async function load(seq) {
    if (!kept.has(seq)) {
      if (kept.size > 200) kept.clear();
      kept.set(seq, get(`/runs/${part(run)}/state?at=${seq}`));
      kept.get(seq).catch(() => kept.delete(seq));
    }
    return kept.get(seq);
  }

  return { bar, panel, more, step, now, compare, at };
}

function told(state, record, past) {
  const rows = [
    ["status", state.waiting_for ? `${state.status} for ${state.waiting_for.replace("awaiting_", "").replaceAll("_", " ")}` : state.status],
    ["steps", state.steps.length],
    ["model calls", state.model_calls], ["tool calls", state.tool_calls],
    ["refused", state.refused_calls], ["tokens", state.tokens],
  ];
  return [
    h("h3", {}, past ? `State at event ${record.seq}` : "State now"),
    h("dl", { class: "facts" }, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))])),
    h("h4", {}, "Data"), readable(state.data ?? {}),
    h("h4", {}, "This event"), h("p", { class: "meta" }, record.summary), readable(record.event),
  ];
}

function compared(before, after, from, to) {
  const found = difference(before, after).filter((one) => one.path !== "at");
  return [
    h("h3", {}, `From event ${from} to ${to}`),
    found.length
      ? h("ul", { class: "difference" }, found.slice(0, 200).map((one) => h("li", { class: one.kind },
          h("span", { class: "path" }, one.path), h("span", { class: "kind" }, one.kind),
          one.kind !== "added" && h("del", {}, cut(pretty(one.before), 400)),
          one.kind !== "removed" && h("ins", {}, cut(pretty(one.after), 400)))))
      : h("p", {}, "No difference."),
    found.length > 200 && h("p", {}, `and ${found.length - 200} more`),
  ];
}
