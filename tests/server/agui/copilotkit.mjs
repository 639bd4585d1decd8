// CopilotKit's runtime in front of our endpoint: cuts the stream between the two at every event.
// node copilotkit.mjs FOLDER URL TOKEN
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [, , folder, url, token] = process.argv;
const from = (path) => import(pathToFileURL(`${folder}/node_modules/${path}`));
const { CopilotRuntime, InMemoryAgentRunner, createCopilotRuntimeHandler } =
  await from("@copilotkit/runtime/dist/v2/index.mjs");
const require = createRequire(`${folder}/node_modules/@copilotkit/runtime/`);
const { HttpAgent } = require("@ag-ui/client");

// What the runtime leaves of a stream that broke is its own affair.
process.on("unhandledRejection", () => {});
let cut = 0, seen = 0, cuts = 0;
// What the runtime fetches of us, ended behind the event number `cut` (0: never).
async function fetched(input, init) {
  const answer = await fetch(input, init);
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  const body = new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) return controller.close();
      const text = decoder.decode(value, { stream: true });
      for (const frame of text.split(/(?<=\n\n)/)) {
        controller.enqueue(new TextEncoder().encode(frame));
        if (frame.endsWith("\n\n")) seen += 1;
        if (cut && seen === cut) {
          cuts += 1;
          await reader.cancel();
          return controller.error(new TypeError("terminated"));
        }
      }
    },
  });
  return new Response(body, { status: answer.status, headers: answer.headers });
}
const agent = new HttpAgent({ url, headers: { Authorization: `Bearer ${token}` }, fetch: fetched });
const runtime = new CopilotRuntime({ agents: { default: agent }, runner: new InMemoryAgentRunner() });
const handler = createCopilotRuntimeHandler({ runtime, basePath: "/api" });

async function post(path, input) {
  const request = new Request(`http://runtime/api/agent/default/${path}`, {
    method: "POST", body: JSON.stringify(input),
    headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
  });
  const answer = await handler(request);
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${answer.status} ${text}`);
  return text.split("\n\n").filter((frame) => frame.startsWith("data: "))
    .map((frame) => JSON.parse(frame.slice(6)));
}

async function thread(number) {
  cut = number; seen = 0; cuts = 0;
  const threadId = `copilot-${number}`;
  const input = { threadId, messages: [{ id: `m-${number}`, role: "user", content: `go ${number}` }],
                  tools: [], context: [], state: {}, forwardedProps: {} };
  let events = [], turns = 0, resume;
  for (;;) {
    const runId = `run-${number}-${turns}`;
    for (let tries = 0; ; tries += 1) {
      try { events = await post("run", { ...input, runId, ...(resume ? { resume } : {}) }); }
      catch (error) { events = []; if (tries > 5) throw error; }
      const last = events.at(-1)?.type;
      if (last === "RUN_FINISHED" || (last === "RUN_ERROR" && !cuts)) break;
      if (tries > 8) throw new Error(`thread ${number}: ${JSON.stringify(events.slice(-3))}`);
      cut = 0;
    }
    turns += 1;
    const outcome = events.at(-1).outcome;
    if (outcome?.type !== "interrupt" || turns > 5) break;
    resume = outcome.interrupts.map((one) => (
      { interruptId: one.id, status: "resolved", payload: { approved: true } }));
  }
  return { events: seen, cuts, last: events.at(-1) };
}
const whole = await thread(0);
const all = [];
for (let number = 1; number <= whole.events; number += 1) all.push(await thread(number));
process.stdout.write(JSON.stringify({ whole, all }));
process.exit(0);
