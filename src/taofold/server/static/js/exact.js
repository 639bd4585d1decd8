/** JSON without loss: integers beyond 2^53, which numbers of JavaScript round, stay as written. Pure. */

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** An integer that no number of JavaScript holds, as it was written. */
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
const unsafe = (token) => /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token));

/** `JSON.parse` that keeps integers beyond 2^53 as `Exact`, digit for digit. */
export function parse(text) {
  const plain = JSON.parse(text);
  const mark = marker();
  let found = false;
  const marked = text.replace(TOKEN, (token) => {
    if (!unsafe(token)) return token;
    found = true;
    return JSON.stringify(mark + token);
  });
  return found ? JSON.parse(marked, (_, value) => (typeof value === "string" && value.startsWith(mark) ? new Exact(value.slice(mark.length)) : value)) : plain;
}

/** `JSON.stringify` with each `Exact` as its digits. */
export function written(value, indent = 0) {
  const mark = marker();
  const text = JSON.stringify(value, (_, one) => (one instanceof Exact ? mark + one.text : one), indent) ?? "";
  return text.replaceAll(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1");
}

/** An integer in `value` that cannot be sent as it was written, or "". */
export function inexact(value) {
  if (value instanceof Exact) return value.text;
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value)) return String(value);
  if (value === null || typeof value !== "object") return "";
  return Object.values(value).map(inexact).find(Boolean) ?? "";
}
