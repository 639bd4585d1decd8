// Verifies the evidence of exports as docs/evidence.md describes, in a language that is not this repository's:
//     node conformance/verify.mjs [--key HEX|FILE]… run.ndjson…
// Prints a line per export: verified, unsigned, no key or broken. Exits with the largest of their codes (0, 10, 11, 12),
// or with 2 if it is called wrongly, or a file or key cannot be used. Node's standard library only.
import { createHash, createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";

const CODES = { verified: 0, unsigned: 10, "no key": 11, broken: 12 };
const STATUSES = ["new", "running", "waiting", "finished", "limited", "failed", "cancelled"];
const DEEPEST = 200;
const LONGEST = 4300;
const MOST_SIGNATURES = 16;
const LAST_TIME = 253_402_300_799_999n;

class Broken extends Error {}
const must = (holds, why) => {
  if (!holds) throw new Broken(why);
};
// Adds the place of the work, a line or a record, to its fault.
const located = (place, work) => {
  try {
    return work();
  } catch (error) {
    if (error instanceof Broken) error.message = `${place}: ${error.message}`;
    throw error;
  }
};
const sha256 = (...parts) => createHash("sha256").update(Buffer.concat(parts.map((it) => Buffer.from(it)))).digest();
const isText = (value) => typeof value === "string";
const isHash = (value) => isText(value) && /^[0-9a-f]{64}$/.test(value);
const isWhole = (value) => typeof value === "bigint" && value >= 0n;
const isTime = (value) => isWhole(value) && value <= LAST_TIME;

// JSON as Map, Array, string, boolean and null. Numbers without fraction and exponent are BigInt, others Number.
function parse(text) {
  let at = 0;
  const space = () => {
    while (" \t\n\r".includes(text[at] ?? "x")) at += 1;
  };
  const take = (token) => {
    must(text.startsWith(token, at), `it is not JSON at character ${at + 1}`);
    at += token.length;
  };
  const match = (pattern) => {
    pattern.lastIndex = at;
    const token = pattern.exec(text)?.[0];
    must(token !== undefined, `it is not JSON at character ${at + 1}`);
    at += token.length;
    return token;
  };
  const string = () => {
    const start = at;
    take('"');
    // One expression for the whole string would exhaust the stack on a long one.
    while (text[at] !== '"')
      if (text[at] === "\\") match(/\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y);
      else match(/[^"\\\u0000-\u001f]{1,4096}/y);
    at += 1;
    const value = JSON.parse(text.slice(start, at));
    must(value.isWellFormed(), "it has an escape of half a surrogate pair");
    return value;
  };
  const members = (open, close, depth, member) => {
    must(depth <= DEEPEST, `it is nested more than ${DEEPEST} deep`);
    take(open);
    space();
    if (text[at] === close) return take(close);
    for (;;) {
      member();
      space();
      if (text[at] === close) return take(close);
      take(",");
    }
  };
  const value = (depth) => {
    space();
    const first = text[at];
    if (first === '"') return string();
    if (first === "{") {
      const object = new Map();
      members("{", "}", depth, () => {
        space();
        const key = string();
        must(!object.has(key), "a key occurs twice in an object");
        space();
        take(":");
        object.set(key, value(depth + 1));
      });
      return object;
    }
    if (first === "[") {
      const array = [];
      members("[", "]", depth, () => array.push(value(depth + 1)));
      return array;
    }
    for (const [token, meaning] of [["true", true], ["false", false], ["null", null]])
      if (text.startsWith(token, at)) {
        at += token.length;
        return meaning;
      }
    const token = match(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y);
    must(token.length - token.startsWith("-") <= LONGEST, "a number is too long");
    if (/^-?\d+$/.test(token)) return BigInt(token);
    must(Number.isFinite(Number(token)), "a number is too large");
    return Number(token);
  };
  const done = value(1);
  space();
  must(at === text.length, "text follows the value");
  return done;
}

// RFC 8785, except for whole numbers, which keep their digits. Strings of JavaScript are UTF-16.
function canonical(value) {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value instanceof Map)
    return `{${[...value.keys()].sort().map((key) => `${JSON.stringify(key)}:${canonical(value.get(key))}`).join(",")}}`;
  return JSON.stringify(value);
}

function base64(text) {
  must(isText(text), "a value is not base64");
  const content = Buffer.from(text, "base64");
  must(content.toString("base64") === text, "a value is not base64");
  return content;
}

// BLAKE2b (RFC 7693) with 20 bytes of output and no key, in hexadecimal: Node's library has only 64 bytes of output.
const IV = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const SIGMA = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
].map((row) => [...row].map((digit) => parseInt(digit, 16)));
const MIXES = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];
const word = (value) => BigInt.asUintN(64, value);
const rotated = (value, bits) => word((value >> bits) | (value << (64n - bits)));

function blake2b160(content) {
  const state = [...IV];
  state[0] ^= 0x01010014n;
  const padded = Buffer.alloc(Math.max(Math.ceil(content.length / 128), 1) * 128);
  content.copy(padded);
  for (let start = 0; start < padded.length; start += 128) {
    const isLast = start + 128 === padded.length;
    const words = Array.from({ length: 16 }, (_, n) => padded.readBigUInt64LE(start + 8 * n));
    const v = [...state, ...IV];
    v[12] ^= BigInt(isLast ? content.length : start + 128);
    if (isLast) v[14] = word(~v[14]);
    for (let round = 0; round < 12; round += 1) {
      const order = SIGMA[round % 10];
      MIXES.forEach(([a, b, c, d], n) => {
        for (const [input, first, second] of [[order[2 * n], 32n, 24n], [order[2 * n + 1], 16n, 63n]]) {
          v[a] = word(v[a] + v[b] + words[input]);
          v[d] = rotated(v[d] ^ v[a], first);
          v[c] = word(v[c] + v[d]);
          v[b] = rotated(v[b] ^ v[c], second);
        }
      });
    }
    state.forEach((_, n) => (state[n] ^= v[n] ^ v[n + 8]));
  }
  const output = Buffer.alloc(64);
  state.forEach((value, n) => output.writeBigUInt64LE(value, 8 * n));
  return output.subarray(0, 20).toString("hex");
}

// The fields of an object by name. It has all that are needed, and of others only the allowed ones.
function fields(value, name, needed, allowed = []) {
  must(value instanceof Map, `the ${name} is not an object`);
  for (const each of needed) must(value.has(each), `the ${name} has no field ${each}`);
  for (const each of value.keys()) must(needed.includes(each) || allowed.includes(each), `the ${name} has an unknown field`);
  return Object.fromEntries(value);
}

const KINDS = [
  ['{"format":', ["format", "version", "schema"]],
  ['{"run":', ["run", "seq", "time", "at", "event"], ["schema"]],
  ['{"evidence":', ["evidence"]],
  ['{"blob":', ["blob", "body"]],
];
const [HEADER, RECORD, EVIDENCE, BLOB] = KINDS.keys();
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function read(line, kind) {
  let text;
  try {
    text = UTF8.decode(line);
  } catch {
    throw new Broken("it is not UTF-8");
  }
  return fields(parse(text), "line", ...KINDS[kind].slice(1));
}

function kindOf(line) {
  const kind = KINDS.findIndex(([start]) => line.subarray(0, start.length).toString("latin1") === start);
  must(kind >= 0 && line.at(-1) === 0x7d, "it does not begin and end as a line of an export does");
  return kind;
}

function split(content) {
  must(content.length > 0, "the export is empty");
  must(content.at(-1) === 0x0a, "the last line has no line feed");
  const found = KINDS.map(() => []);
  let place = HEADER, number = 1;
  for (let start = 0; start < content.length; number += 1) {
    const end = content.indexOf(0x0a, start);
    const line = content.subarray(start, end);
    const kind = located(`line ${number}`, () => kindOf(line));
    const fits = (kind === HEADER) === (start === 0) && kind >= place && !(kind === EVIDENCE && place === EVIDENCE);
    must(fits, `line ${number}: it stands in the wrong place, or occurs twice`);
    found[kind].push({ place: `line ${number}`, line });
    place = kind;
    start = end + 1;
  }
  return found;
}

function readHeader(line) {
  const header = read(line, HEADER);
  must(header.format === "taofold-ndjson" && header.version === 1n, "the export has another format or version");
  must(isWhole(header.schema), "schema is not a whole number");
  return header;
}

function readEvidence(line) {
  const evidence = fields(read(line, EVIDENCE).evidence, "evidence", ["log", "run", "links", "heads"], ["leaves"]);
  const { log, run, links, heads, leaves = new Map() } = evidence;
  must(isText(log) && !log.includes("\n") && isText(run), "log or run is not text, or log has a line feed");
  must(Array.isArray(links) && links.every(isHash), "links is not a list of hashes");
  must(leaves instanceof Map && [...leaves.values()].every(isHash), "leaves is not an object of hashes");
  const numbers = new Set(links.map((_, seq) => String(seq)));
  must([...leaves.keys()].every((name) => numbers.has(name)), "leaves names a record that has no link");
  must(Array.isArray(heads), "heads is not a list");
  let last = -1n;
  const done = heads.map((value) => {
    const head = fields(value, "head", ["seq", "link", "at"], ["envelope", "stamp"]);
    must(isWhole(head.seq) && isTime(head.at), "seq or at of a head is not a whole number in its range");
    must(head.seq > last, "the heads are in another order");
    last = head.seq;
    return head;
  });
  return { log, run, links, leaves, heads: done };
}

function readRecord(line, seq, header) {
  const { time, ...record } = located(`record ${seq}`, () => ({ schema: header.schema, ...read(line, RECORD) }));
  must(isWhole(record.seq), `record ${seq}: seq is not a whole number`);
  // The smaller one of the two places is named.
  const named = record.seq < BigInt(seq) ? record.seq : seq;
  must(record.seq === BigInt(seq), `record ${named}: it is missing, occurs twice or stands in another place`);
  located(`record ${seq}`, () => {
    must(isText(record.run) && record.event instanceof Map, "run is not text, or event is not an object");
    must(isWhole(record.schema), "schema is not a whole number");
    must(isTime(record.at) && time === new Date(Number(record.at)).toISOString(), "at is not in its range, or time differs from it");
  });
  return record;
}

function checkChain(header, lines, evidence) {
  let run = evidence?.run;
  let link = evidence && sha256("taofold chain 1\n", evidence.log, "\n", run);
  let next = 0;
  const links = evidence?.links ?? lines;
  links.forEach((stored, seq) => {
    let leaf = evidence?.leaves.get(String(seq));
    if (leaf === undefined) {
      must(next < lines.length, `record ${seq}: it is missing`);
      const record = readRecord(lines[next].line, seq, header);
      next += 1;
      run ??= record.run;
      must(record.run === run, `record ${seq}: it is of another run`);
      leaf = sha256(canonical(new Map(Object.entries(record)))).toString("hex");
    }
    if (evidence === undefined) return;
    link = sha256(link, Buffer.from(leaf, "hex"));
    must(link.toString("hex") === stored, `record ${seq}: it or its link was changed`);
  });
  if (next === lines.length) return;
  readRecord(lines[next].line, links.length, header);
  throw new Broken(`record ${links.length}: it has no link`);
}

// The keyids of the given keys that signed the envelope of a head, each as often as it signed.
function signersOf(envelope, link, predicate, keys) {
  const { payload, payloadType, signatures } = fields(envelope, "envelope", ["payload", "payloadType", "signatures"]);
  must(payloadType === "application/vnd.in-toto+json", "an envelope has another type of payload");
  must(Array.isArray(signatures) && signatures.length > 0, "an envelope has no list of signatures");
  must(signatures.length <= MOST_SIGNATURES, `an envelope has more than ${MOST_SIGNATURES} signatures`);
  const made = signatures.map((each) => fields(each, "signature", ["keyid", "sig"]));
  must(made.every(({ keyid }) => isText(keyid)), "a keyid is not text");
  must(new Set(made.map(({ keyid }) => keyid)).size === made.length, "an envelope has two signatures of one key");
  const stated = base64(payload);
  const statement = (status) =>
    canonical(
      new Map([
        ["_type", "https://in-toto.io/Statement/v1"],
        ["predicate", new Map(Object.entries({ ...predicate, status }))],
        ["predicateType", "https://taofold.dev/evidence/chain/v1"],
        ["subject", [new Map([["digest", new Map([["sha256", link]])], ["name", `taofold-run:${predicate.run}`]])]],
      ]),
    );
  must(STATUSES.some((status) => stated.equals(Buffer.from(statement(status)))), "a statement is not the one about its head");
  const message = Buffer.concat([Buffer.from(`DSSEv1 ${payloadType.length} ${payloadType} ${stated.length} `), stated]);
  const found = made.flatMap(({ sig }) => {
    const signature = base64(sig);
    must(signature.length === 64, "a signature is not 64 bytes long");
    return keys.filter(({ key }) => verify(null, message, key, signature)).map(({ keyid }) => keyid);
  });
  must(new Set(found).size === found.length, "an envelope has two signatures of one key");
  return found;
}

function checkHeads({ log, run, links, heads }, keys) {
  let covered = 0, hasSignatures = false, signers = [];
  for (const { seq, at, link, envelope, stamp } of heads) {
    must(seq < BigInt(links.length), "a head shows that records were removed");
    must(links[seq] === link, `the head at record ${seq} has another link`);
    must(stamp === undefined || (base64(stamp).length > 0 && envelope !== undefined), "a stamp is empty, or has no envelope");
    if (envelope === undefined) continue;
    signers = signersOf(envelope, link, { log, run, seq, at, records: seq + 1n }, keys);
    hasSignatures = true;
    if (signers.length > 0) covered = Number(seq) + 1;
  }
  return { covered, hasSignatures, signers };
}

function check(content, keys) {
  const lines = split(content);
  const readAll = (kind, reader) => lines[kind].map(({ place, line }) => located(place, () => reader(line)));
  const [header] = readAll(HEADER, readHeader);
  const [evidence] = readAll(EVIDENCE, readEvidence);
  checkChain(header, lines[RECORD], evidence);
  const { covered, hasSignatures, signers } = evidence
    ? located(lines[EVIDENCE][0].place, () => checkHeads(evidence, keys))
    : {};
  readAll(BLOB, (line) => {
    const { blob, body } = read(line, BLOB);
    must(blake2b160(base64(body)) === blob, "the content of the blob was changed");
  });
  // Those of the head with the last record, which is the last head then.
  if (evidence && covered > 0 && covered === evidence.links.length) return ["verified", `signed by key ${signers.join(", ")}`];
  return hasSignatures && covered === 0 ? ["no key", ""] : ["unsigned", ""];
}

function verdictOn(content, keys) {
  try {
    return check(content, keys);
  } catch (error) {
    if (error instanceof Broken) return ["broken", error.message];
    throw error;
  }
}

// Anybody can sign for a point of small order. No signature fits bytes that are not the canonical encoding of a point.
const P = 2n ** 255n - 19n;
const modulo = (value) => ((value % P) + P) % P;

function power(base, exponent) {
  let done = 1n;
  for (let square = modulo(base); exponent > 0n; exponent >>= 1n, square = modulo(square * square))
    if (exponent & 1n) done = modulo(done * square);
  return done;
}

const D = modulo(-121665n * power(121666n, P - 2n));

function isUsable(raw) {
  const y = BigInt(`0x${Buffer.from(raw).reverse().toString("hex")}`) & (2n ** 255n - 1n);
  const yy = y * y;
  // Orders 4, 1 and 2, and 8.
  const isSmall = modulo(y) === 0n || modulo(yy - 1n) === 0n || modulo(D * yy * yy + 2n * yy - 1n) === 0n;
  const xx = modulo((yy - 1n) * power(D * yy + 1n, P - 2n));
  return y < P && !isSmall && power(xx, (P - 1n) / 2n) === 1n;
}

const isHex = (text) => /^[0-9a-fA-F]{64}$/.test(text);
const SPKI = Buffer.from("302a300506032b6570032100", "hex");

// The DER form of a public key, given as hexadecimal digits or PEM.
function derOf(text) {
  if (isHex(text)) return Buffer.concat([SPKI, Buffer.from(text, "hex")]);
  const lines = text.split("\n").map((line) => line.replace(/^[ \t\r]+|[ \t\r]+$/g, ""));
  must(lines.shift() === "-----BEGIN PUBLIC KEY-----" && lines.pop() === "-----END PUBLIC KEY-----", "it is no public key in PEM");
  const der = base64(lines.join(""));
  must(der.length === SPKI.length + 32 && der.subarray(0, SPKI.length).equals(SPKI), "it is not an Ed25519 public key");
  return der;
}

function publicKey(spec) {
  const text = isHex(spec) ? spec : readFileSync(spec).toString("latin1");
  const der = derOf(text.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, ""));
  const raw = der.subarray(SPKI.length);
  must(isUsable(raw), "it is not the canonical encoding of a point, or the point has small order");
  return { keyid: sha256(raw).toString("hex"), key: createPublicKey({ key: der, format: "der", type: "spki" }) };
}

function usable(what, work) {
  try {
    return work();
  } catch (error) {
    console.error(`${what} cannot be used: ${error.message}`);
    process.exit(2);
  }
}

const files = [];
const keys = new Map();
for (let place = 2; place < process.argv.length; place += 1) {
  if (process.argv[place] !== "--key") {
    files.push(process.argv[place]);
    continue;
  }
  const spec = process.argv[(place += 1)] ?? "";
  const key = usable(`the key ${spec}`, () => publicKey(spec));
  keys.set(key.keyid, key);
}
const contents = files.map((file) => usable(file, () => readFileSync(file)));
if (files.length === 0) {
  console.error("usage: node verify.mjs [--key HEX|FILE]… EXPORT…");
  process.exit(2);
}
process.exitCode = 0;
for (const content of contents) {
  const [verdict, text] = verdictOn(content, [...keys.values()]);
  console.log(text ? `${verdict}: ${text}` : verdict);
  process.exitCode = Math.max(process.exitCode, CODES[verdict]);
}
