// Reports what `node --test` did, as JSON lines. Runs in the test runner's own process, not
// in those of the tests. The nonce comes through the descriptor named in the environment.
import { readFileSync } from "node:fs";

const { nonce } = JSON.parse(readFileSync(Number(process.env.TAOFOLD_GATE_IN), "utf8"));
delete process.env.TAOFOLD_GATE_IN;

const line = (kind, values) => JSON.stringify({ n: nonce, k: kind, ...values }) + "\n";
const shortened = (text) => (text.length > 20000 ? text.slice(0, 20000) : text);

export default async function* report(source) {
  const above = new Map();
  let failed = 0;
  for await (const { type, data } of source) {
    if (type === "test:start") {
      const names = above.get(data.file) ?? [];
      names.length = data.nesting;
      names[data.nesting] = data.name;
      above.set(data.file, names);
    } else if (type === "test:pass" || type === "test:fail") {
      const names = (above.get(data.file) ?? []).slice(0, data.nesting);
      const error = data.details?.error;
      const cause = error?.cause instanceof Error ? error.cause : error;
      const off = data.skip !== undefined || data.todo !== undefined;
      const bad = type === "test:fail" && data.todo === undefined;
      failed += bad ? 1 : 0;
      yield line("check", {
        id: [data.file ?? "", ...names, data.name].join(" > "),
        status: bad ? "failed" : off ? "skipped" : "passed",
        type: cause?.code ?? cause?.name ?? "",
        message: String(cause?.message ?? error?.message ?? "").slice(0, 2000),
        places: data.file ? [[data.file, data.line ?? 0, ""]] : [],
        trace: shortened(String(cause?.stack ?? "")),
        ms: Math.round(data.details?.duration_ms ?? 0),
        suite: data.details?.type === "suite",
      });
    }
  }
  yield line("end", { code: failed ? 1 : 0, patched: {}, plugins: [], toolchain: [] });
}
