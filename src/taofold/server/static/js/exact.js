/** JSON without loss: numbers that JavaScript would write in another way stay as written. Pure. */

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

// Nobody who writes a text knows the mark, so no text can pass for a number.
const marker = () => `${crypto.getRandomValues(new Uint32Array(4)).join("-")}:`;
const INTEGER = /^-?\d+$/;

/**
 * `JSON.parse` that keeps as `Exact` what would be written in another way: everywhere integers beyond 2^53,
 * and within `args`, or with `all`, every number.
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

/** `value` with the numbers outside of `args` as numbers, unless they are integers beyond 2^53. */
function calculable(value) {
  if (value instanceof Exact) return INTEGER.test(value.text) && Number(value.text) !== 0 ? value : Number(value.text);
  if (value === null || typeof value !== "object") return value;
  for (const [name, one] of Object.entries(value)) {
    const number = name === "args" ? one : calculable(one);
    if (number !== one) value[name] = number;
  }
  return value;
}

/** `JSON.stringify` with each `Exact` as its digits. */
export function written(value, indent = 0) {
  const mark = marker();
  const text = JSON.stringify(value, (_, one) => (one instanceof Exact ? mark + one.text : one), indent) ?? "";
  return text.replaceAll(new RegExp(`"${mark}([^"]+)"`, "g"), "$1");
}

/** An integer in `value` that cannot be sent as it was written, or "". */
export function inexact(value) {
  if (value instanceof Exact) return INTEGER.test(value.text) && Number(value.text) !== 0 ? value.text : "";
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value)) return String(value);
  if (value === null || typeof value !== "object") return "";
  return Object.values(value).map(inexact).find(Boolean) ?? "";
}
