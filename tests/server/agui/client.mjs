// Drives an agent with the official AG-UI client and prints what the client made of it.
import { createRequire } from "node:module";

const [, , folder, url, token, story] = process.argv;
const { HttpAgent } = createRequire(`${folder}/`)("@ag-ui/client");
const headers = { Authorization: `Bearer ${token}` };
const initialMessages = [{ id: "u1", role: "user", content: "go" }];
const agent = new HttpAgent({ url, headers, threadId: `thread-${story}`, initialMessages });
const told = { events: [], failures: [], interrupts: [], results: [] };
const subscriber = {
  onEvent: ({ event }) => void told.events.push(event.type),
  onRunFailed: ({ error }) => void told.failures.push(String(error.message ?? error)),
};

async function run(resume) {
  const answer = await agent.runAgent(resume ? { resume } : {}, subscriber).catch(() => null);
  told.results.push(answer?.result ?? null);
  told.interrupts.push(agent.pendingInterrupts.map((one) => ({ ...one })));
}

const answers = (payload) =>
  agent.pendingInterrupts.map((one) => ({ interruptId: one.id, status: "resolved", payload }));

await run();
for (const payload of JSON.parse(process.argv[6] ?? "[]")) await run(answers(payload));
told.messages = agent.messages;
told.state = agent.state;
process.stdout.write(JSON.stringify(told));
