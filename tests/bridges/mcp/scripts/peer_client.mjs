// The TypeScript SDK as a client of our server: node peer_client.mjs FOLDER v1|v2 URL TOKEN.
// Lines in and out as peer_client.py has them.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [, , folder, generation, url, token] = process.argv;
const from = (path) => import(pathToFileURL(`${folder}/node_modules/@modelcontextprotocol/${path}`));
const { Client, StreamableHTTPClientTransport } = generation === "v1"
  ? { ...(await from("sdk/dist/esm/client/index.js")),
      ...(await from("sdk/dist/esm/client/streamableHttp.js")) }
  : await from("client/dist/index.mjs");
const put = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const client = new Client({ name: "peer", version: "1" });
const headers = { Authorization: `Bearer ${token}` };
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
put((await client.listTools()).tools.map((one) => one.name));
for await (const line of createInterface({ input: process.stdin })) {
  const [name, args] = JSON.parse(line);
  const result = await client.callTool({ name, arguments: args });
  put({
    error: result.isError === true,
    text: result.content.map((block) => block.text).join(""),
    structured: result.structuredContent ?? null,
  });
}
await client.close();
