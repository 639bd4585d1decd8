// Folds a log as docs/log-format.md says, in a language that is not this repository's:
//     node conformance/fold.mjs conformance/folding/*.json
// Exit code 1 and the first difference, if a state is not the expected one.
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

const kit = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), "utf8"));
const EVENTS = kit("events.json");
const DEFAULTS = kit("defaults.json");
const USAGE = Object.keys(DEFAULTS.usage);
const usage = (raw = {}) => ({ ...DEFAULTS.usage, ...raw });
const plus = (a, b) => Object.fromEntries(USAGE.map((name) => [name, a[name] + (b?.[name] ?? 0)]));
const thought = (raw) => ({ ...structuredClone(DEFAULTS.thought), ...raw });
const action = (raw) => ({ ...structuredClone(DEFAULTS.action), ...raw });
const observation = (raw) => ({ ...structuredClone(DEFAULTS.observation), ...raw });

const fresh = () => ({
  goal: "", status: "new", stop_reason: "", success: false, output: null, accepted: null, error: "",
  waiting_for: "", agent: "", data: {}, steps: [], open: {}, model_calls: 0, tool_calls: 0, per_tool: {},
  child_model_calls: 0, child_tool_calls: 0, refused_calls: 0, refused_row: 0, usage: usage(),
  usage_by_model: {}, limits_hit: [], heard: [], epoch: 0, wakes: 0, rewinds: 0, at: 0, active_ms: 0, masked: false,
});

function replied(state, event) {
  state.model_calls += event.cached ? 0 : 1;
  charged(state, event);
}

function charged(state, event) {
  state.usage = plus(state.usage, event.usage);
  const model = event.model ?? "";
  state.usage_by_model[model] = plus(state.usage_by_model[model] ?? usage(), event.usage);
}

function consumed(state, event) {
  const [asked, acted] = event.calls ?? [0, 0];
  state.child_model_calls += asked;
  state.child_tool_calls += acted;
  state.usage = plus(state.usage, event.usage);
  for (const [model, use] of Object.entries(event.models ?? {}))
    state.usage_by_model[model] = plus(state.usage_by_model[model] ?? usage(), use);
  for (const [tool, n] of Object.entries(event.tools ?? {}))
    state.per_tool[tool] = (state.per_tool[tool] ?? 0) + n;
}

function observed(state, event) {
  const step = state.open[event.key];
  const slot = step.slots[event.index ?? 0];
  slot.observation = observation(event.observation);
  slot.update = event.update;
  state.refused_calls += slot.observation.refused ? 1 : 0;
  state.refused_row = slot.observation.refused ? state.refused_row + 1 : 0;
  consumed(state, event);
  if (step.slots.some((one) => one.observation === undefined)) return;
  delete state.open[event.key];
  state.steps.push({
    number: state.steps.length + 1,
    thought: step.thought,
    actions: step.slots.map((one) => one.action),
    observations: step.slots.map((one) => one.observation),
  });
  for (const { update } of step.slots) if (update) state.data[update[0]] = update[1];
}

function reduce(state, { at, event }) {
  const kind = EVENTS[event.e];
  if (kind === undefined) throw new Error(`unknown event ${event.e}`);
  const timed = kind.timed && state.status !== "new" && state.status !== "waiting";
  const untouched = ["run_started", "resumed", "rewound"].includes(event.e);
  if (!untouched) {
    if (event.elapsed != null) state.active_ms += event.elapsed;
    else if (timed && at > state.at) state.active_ms += at - state.at;
  }
  state.at = at;
  state.masked ||= Boolean(event.masked || event.observation?.masked);
  switch (event.e) {
    case "run_started":
      Object.assign(state, { goal: event.goal, status: "running", agent: event.agent ?? "agent", data: { ...event.data } });
      break;
    case "handed_off": state.agent = event.agent; break;
    case "replied": replied(state, event); break;
    case "charged": charged(state, event); break;
    case "proposed":
      state.open[event.key] = {
        thought: thought(event.thought),
        slots: event.actions.map((raw) => ({ action: action(raw), started: false, asking: false, cut: false })),
      };
      break;
    case "decided":
    case "resolved":
      if (event.action) state.open[event.key].slots[event.index ?? 0].action = action(event.action);
      state.open[event.key].slots[event.index ?? 0].asking = event.request != null;
      state.status = "running";
      break;
    case "started":
    case "started_once": {
      const slot = state.open[event.key].slots[event.index ?? 0];
      // A call that is made once more because it raised, or was cut off, counts; one that goes on does not.
      if (!slot.started || slot.cut || event.retry > 0) {
        state.tool_calls += 1;
        state.per_tool[slot.action.tool] = (state.per_tool[slot.action.tool] ?? 0) + 1;
        state.refused_row = 0;
      }
      slot.started = true;
      slot.cut = false;
      break;
    }
    case "observed": observed(state, event); break;
    case "updated": state.data[event.name] = event.value ?? null; break;
    case "steered": state.heard.push(event.text); break;
    case "limit_hit": state.limits_hit.push(event.limit); break;
    case "resumed":
      // The activation before it ended without recording an end.
      if (state.status === "running" && event.epoch > Math.max(state.epoch, 1))
        for (const step of Object.values(state.open))
          for (const slot of step.slots)
            slot.cut ||= slot.started && slot.observation === undefined && !slot.asking;
      Object.assign(state, { status: "running", epoch: event.epoch, waiting_for: "", wakes: state.wakes + 1 });
      break;
    case "parked": Object.assign(state, { status: "waiting", waiting_for: event.reason }); break;
    case "rewound": state.rewinds += 1; break;
    case "noted": if (event.kind === "state") Object.assign(state.data, event.data); break;
    case "run_finished": {
      const { status, stop_reason, success, output = null, error = "", accepted = null } = event;
      Object.assign(state, { status, stop_reason, success, output, accepted, error, waiting_for: "" });
      break;
    }
    default: if (!kind.annotation) throw new Error(`no case for ${event.e}`);
  }
}

function fold(records) {
  const live = [];
  for (const record of records) {
    if (record.event.e === "rewound")
      while (live.length && live[live.length - 1].seq > record.event.to) live.pop();
    live.push(record);
  }
  const state = fresh();
  const counted = new Set(live.map((record) => record.seq));
  for (const record of live) reduce(state, structuredClone(record));
  for (const { seq, event } of records)
    if (!counted.has(seq)) {
      if (event.e === "replied") replied(state, event);
      if (event.e === "charged") charged(state, event);
      if (event.e === "observed") consumed(state, event);
    }
  return { ...state, open: Object.keys(state.open).sort() };
}

for (const file of process.argv.slice(2)) {
  const { records, states } = JSON.parse(readFileSync(file, "utf8"));
  states.forEach((expected, n) => {
    const state = fold(records.slice(0, n + 1));
    for (const name of new Set([...Object.keys(expected), ...Object.keys(state)]))
      if (!isDeepStrictEqual(state[name], expected[name])) {
        console.error(`${file}: after record ${n}: ${name}: ${JSON.stringify(state[name])}, expected ${JSON.stringify(expected[name])}`);
        process.exit(1);
      }
  });
  console.log(`${file}: ${states.length} states`);
}
