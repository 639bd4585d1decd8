/** Lossless JSON: numbers that JavaScript would write differently stay as written. Pure. */

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** A number as it was written: one beyond 2^53, `1.0` or `-0.0`. */
export class Exact {
  constructor(text) {
    this.text = text;
  }

  toString() {
    return this.text;
  }
}

// The mark is random, so no text can imitate a number.
const marker = () => `${crypto.getRandomValues(new Uint32Array(4)).join("-")}:`;
const INTEGER = /^-?\d+$/;

/**
 * A `JSON.parse` that keeps numbers as `Exact` that would be written differently: integers beyond 2^53 everywhere,
 * and every such number within `args`, or with `all`.
 */
export function parse(text, all = false) {
  const plain = JSON.parse(text);
  const mark = marker();
  let found = false;
  const marked = text.replace(TOKEN, (token) => {
    if (token.startsWith('"') || String(Number(token)) === token) return token;
    found = true;
    return JSON.stringify(mark + token);
  });
  if (!found) return plain;
  const exact = JSON.parse(marked, (_, value) => (typeof value === "string" && value.startsWith(mark) ? new Exact(value.slice(mark.length)) : value));
  return all ? exact : calculable(exact);
}

/** Returns `value` with plain numbers outside of `args`, except integers beyond 2^53. */
function calculable(value) {
  if (value instanceof Exact) return INTEGER.test(value.text) && Number(value.text) !== 0 ? value : Number(value.text);
  if (value === null || typeof value !== "object") return value;
  for (const [name, one] of Object.entries(value)) {
    const number = name === "args" ? one : calculable(one);
    if (number !== one) value[name] = number;
  }
  return value;
}

/** A `JSON.stringify` that writes each `Exact` as its digits. */
export function written(value, indent = 0) {
  const mark = marker();
  const text = JSON.stringify(value, (_, one) => (one instanceof Exact ? mark + one.text : one), indent) ?? "";
  return text.replaceAll(new RegExp(`"${mark}([^"]+)"`, "g"), "$1");
}

/** Returns an integer in `value` that cannot be sent as written, or "". */
export function inexact(value) {
  if (value instanceof Exact) return INTEGER.test(value.text) && Number(value.text) !== 0 ? value.text : "";
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value)) return String(value);
  if (value === null || typeof value !== "object") return "";
  return Object.values(value).map(inexact).find(Boolean) ?? "";
}
