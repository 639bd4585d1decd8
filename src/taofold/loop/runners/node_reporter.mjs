// Reports what `node --test` did, as JSON lines. Runs in the test runner's own process, not
// in those of the tests. The nonce comes through the descriptor named in the environment.
import { readFileSync } from "node:fs";

const { nonce } = JSON.parse(readFileSync(Number(process.env.TAOFOLD_GATE_IN), "utf8"));
delete process.env.TAOFOLD_GATE_IN;

const line = (kind, values) => JSON.stringify({ n: nonce, k: kind, ...values }) + "\n";
const shortened = (text) => (text.length > 20000 ? text.slice(0, 20000) : text);

// A file that cannot be loaded is reported as one failing test named like the file; why, only its
// process's standard error says: `/w/a.js:3`, the line, `SyntaxError: …`.
const THROWN = /^(?:Uncaught )?(\w*(?:Error|Exception))(?: \[\w+\])?: (.*)$/m;
const PLACE = /^(?:file:\/\/)?(\/\S+):(\d+)$/m;

function unloaded(data, printed) {
  const thrown = THROWN.exec(printed);
  if (!data.file || data.nesting || data.name !== data.file || !thrown) return undefined;
  const place = PLACE.exec(printed);
  return {
    status: "error",
    type: thrown[1],
    message: thrown[2].slice(0, 2000),
    places: place ? [[place[1], Number(place[2]), ""]] : [[data.file, 0, ""]],
    trace: shortened(printed),
  };
}

// The frames of a stack that lie in files, the outermost first. Where none lies in the test's file
// (its own frame is lost behind an `await`) the test stands for it.
const FRAME =
  /^\s+at (?:(?:async |new )*([^\s(]+)(?: \[as [^\]]+\])? \()?(?:file:\/\/)?(\/[^():]+):(\d+):\d+\)?$/;

function places(data, stack) {
  const frames = [];
  for (const text of shortened(stack).split("\n")) {
    const frame = FRAME.exec(text);
    if (frame) {
      const name = (frame[1] ?? "").split(".").pop().replace("<anonymous>", "");
      frames.unshift([frame[2], Number(frame[3]), name]);
    }
  }
  if (data.file && !frames.some(([file]) => file === data.file))
    frames.unshift([data.file, data.line ?? 0, ""]);
  return frames;
}

export default async function* report(source) {
  const above = new Map();
  const printed = new Map();
  let failed = 0;
  for await (const { type, data } of source) {
    if (type === "test:stderr") {
      const before = printed.get(data.file) ?? "";
      if (before.length < 20000) printed.set(data.file, before + data.message);
    } else if (type === "test:start") {
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
        places: places(data, String(cause?.stack ?? "")),
        trace: shortened(String(cause?.stack ?? "")),
        ms: Math.round(data.details?.duration_ms ?? 0),
        suite: data.details?.type === "suite",
        ...(bad ? unloaded(data, printed.get(data.file) ?? "") : {}),
      });
    }
  }
  yield line("end", { code: failed ? 1 : 0, patched: {}, plugins: [], toolchain: [] });
}
