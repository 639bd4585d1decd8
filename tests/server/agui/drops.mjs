// Cuts the stream at every event, comes back, and prints what the client ended up with each time.
import { createRequire } from "node:module";

const [, , folder, url, token] = process.argv;
const { HttpAgent } = createRequire(`${folder}/`)("@ag-ui/client");
const headers = { Authorization: `Bearer ${token}` };
// Which call a result belongs to, by its place among the thread's calls: ids hold the record's number,
// which a run that was taken over in between has counted further.
const plain = (one, _, all) => ({
  role: one.role, content: one.content, calls: (one.toolCalls ?? []).map((call) => call.function),
  of: one.toolCallId && all.flatMap((other) => other.toolCalls ?? []).findIndex((call) => call.id === one.toolCallId),
});

// One thread whose stream is cut at its event number `cut` (0: never).
async function thread(cut) {
  const initialMessages = [{ id: `user-message-${cut}`, role: "user", content: `go ${cut}` }];
  const threadId = `thread-${cut}`;
  let agent = new HttpAgent({ url, headers, threadId, initialMessages });
  let seen = 0, cutOff = 0, turn = 0, runs = 0;
  async function run(resume) {
    const runId = `run-${cut}-${turn++}`;
    for (;;) {
      let ended = false, lost;
      const gone = new Promise((resolve) => { lost = resolve; });
      runs += 1;
      const watched = agent;
      const subscriber = {
        onEvent: ({ event }) => {
          seen += 1;
          if (seen === cut) { cutOff += 1; agent.abortRun(); lost(); return; }
          if (cutOff && agent !== watched) return;  // of the client that is gone
          if (event.type === "RUN_FINISHED" || event.type === "RUN_ERROR") ended = true;
        },
      };
      const run = agent.runAgent(resume ? { runId, resume } : { runId }, subscriber);
      await Promise.race([run.catch(() => null), gone]);
      if (ended) return;
      // The page is loaded anew, with what it had come to.
      const { messages, state } = agent;
      agent = new HttpAgent({ url, headers, threadId, initialMessages: messages, initialState: state });
      if (runs > 20) throw new Error(`thread ${cut} does not end`);
    }
  }
  await run();
  while (agent.pendingInterrupts.length) {
    await run(agent.pendingInterrupts.map((one) => (
      { interruptId: one.id, status: "resolved", payload: { approved: true } })));
  }
  const { run: _, ...state } = agent.state;
  return { events: seen, cutOff, messages: agent.messages.map(plain), state };
}

const whole = await thread(0);
const cuts = [];
for (let cut = 1; cut <= whole.events; cut += 1) cuts.push(await thread(cut));
process.stdout.write(JSON.stringify({ whole, cuts }));
