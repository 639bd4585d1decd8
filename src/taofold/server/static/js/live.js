/** Follows the events of a run, through dropped connections and restarts of the server. */

import { get, part } from "./api.js";

const NAMES = [
  "thinking", "tool_start", "tool_result", "answer_chunk", "answer", "done", "run_error",
  "autonomous_action", "confirmation_request", "confirmation_resolved", "limit_reached", "loop_warning",
  "progress", "rewound", "note",
];
const PATIENCE = 15000;
export const ENDED = ["finished", "limited", "failed", "cancelled"];

/**
 * Calls `tell(event)` for each event and `connection(state)` with "live", "lost" or "ended".
 * Returns a function that stops.
 */
export function follow(run, tell, connection) {
  let source = null;
  let last = "";
  let wait = 500;
  let timer = 0;
  let stopped = false;

  function stop() {
    stopped = true;
    clearTimeout(timer);
    source?.close();
  }

  function heard(message) {
    if (message.lastEventId) last = message.lastEventId;
    const event = JSON.parse(message.data);
    tell(event);
    if (event.type === "done") {
      stop();
      connection("ended");
    }
  }

  function open() {
    const after = last ? `?after=${part(last)}` : "";
    source = new EventSource(`/runs/${part(run)}/events${after}`);
    source.onopen = () => {
      wait = 500;
      connection("live");
    };
    for (const name of NAMES) source.addEventListener(name, heard);
    source.onerror = () => lost(source);
  }

  // The browser reconnects by itself, with Last-Event-ID, unless the answer was not a stream.
  async function lost(from) {
    if (stopped || from !== source) return;
    connection("lost");
    if (from.readyState !== EventSource.CLOSED) return;
    const ended = await get(`/runs/${part(run)}`).then(
      (said) => ENDED.includes(said.status) && last,
      (error) => error.status === 404,
    );
    if (stopped) return;
    if (ended) {
      stop();
      connection("ended");
      return;
    }
    timer = setTimeout(open, wait);
    wait = Math.min(PATIENCE, wait * 2);
  }

  open();
  return stop;
}
