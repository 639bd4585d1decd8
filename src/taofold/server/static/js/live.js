/** Follows the events of a run across lost connections and restarts of the server. */

import { part, send } from "./api.js";
import { parse } from "./exact.js";

const PATIENCE = 15000;
/** The client has read all events of an ended run (204), or may not see it. */
const OVER = [204, 401, 403, 404];
export const ENDED = ["finished", "limited", "failed", "cancelled"];

/**
 * Calls `tell(event)` for each event and `connection(state)` with "live", "lost" or "ended".
 * Returns a function that stops.
 */
export function follow(run, tell, connection) {
  const leaving = new AbortController();
  let last = "";
  let wait = 500;
  let timer = 0;
  let stopped = false;

  function stop() {
    stopped = true;
    clearTimeout(timer);
    leaving.abort();
  }

  /** Parses one event of the stream, which consists of lines `name: value`. */
  function heard(frame) {
    const data = [];
    for (const line of frame.split("\n")) {
      const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line);
      if (name === "id") last = value;
      else if (name === "data") data.push(value);
    }
    if (!data.length) return;
    const event = parse(data.join("\n"));
    tell(event);
    if (event.type !== "done") return;
    stop();
    connection("ended");
  }

  async function read(answer) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || stopped) return;
      text += value;
      // Only complete events: a cut one is sent again.
      const frames = text.split(/\r?\n\r?\n/);
      text = frames.pop();
      for (const frame of frames) {
        if (stopped) return;
        heard(frame.replaceAll("\r\n", "\n"));
      }
    }
  }

  // No EventSource, because it cannot send a header and would need a secret in the address or a cookie.
  async function open() {
    try {
      const answer = await send(`/runs/${part(run)}/events`, {
        headers: { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) }, signal: leaving.signal,
      });
      if (answer.status === 200) {
        wait = 500;
        connection("live");
        await read(answer);
      } else if (OVER.includes(answer.status)) {
        stop();
        connection("ended");
      }
    } catch {
      // lost or closed
    }
    if (stopped) return;
    connection("lost");
    timer = setTimeout(open, wait);
    wait = Math.min(PATIENCE, wait * 2);
  }

  open();
  return stop;
}
