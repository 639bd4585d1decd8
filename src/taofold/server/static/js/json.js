/** JSON to read: names beside values, what is deep or long folded away. */

import { h } from "./dom.js";
import { cut } from "./format.js";

const OPEN = 2;
const MOST = 100;

/** `value` as an element; a text that holds a JSON object or array is shown as one. */
export function readable(value) {
  const held = typeof value === "string" ? parsed(value) : value;
  if (typeof held === "string") return h("pre", { tabindex: 0 }, held);
  if (held === null || typeof held !== "object") return h("pre", { tabindex: 0 }, JSON.stringify(held) ?? "");
  return h("div", { class: "json", tabindex: 0, role: "group", "aria-label": "JSON" }, tree(held, 0));
}

function parsed(text) {
  const trimmed = text.trim();
  if (trimmed.length > 200000 || !/^(\{[^]*\}|\[[^]*\])$/.test(trimmed)) return text;
  try {
    return JSON.parse(trimmed);
  } catch {
    return text;
  }
}

function tree(value, depth) {
  const entries = Array.isArray(value) ? value.map((one, n) => [n, one]) : Object.entries(value);
  if (!entries.length) return h("span", { class: "scalar" }, Array.isArray(value) ? "[]" : "{}");
  return h("dl", {}, entries.slice(0, MOST).map(([name, one]) => pair(name, one, depth)),
    entries.length > MOST && h("div", {}, h("dt", {}, "…"), h("dd", {}, `and ${entries.length - MOST} more`)));
}

function pair(name, value, depth) {
  if (value === null || typeof value !== "object") return h("div", {}, h("dt", {}, String(name)), h("dd", {}, scalar(value)));
  const size = Array.isArray(value) ? `${value.length} items` : `${Object.keys(value).length} names`;
  const inner = h("details", { open: depth < OPEN - 1 && size.split(" ")[0] <= 12 },
    h("summary", {}, h("span", { class: "key" }, String(name)), h("span", { class: "size" }, ` ${size}`)));
  // What is folded is built when it is opened: a large value costs nothing until somebody looks.
  const build = () => inner.childElementCount === 1 && inner.append(tree(value, depth + 1));
  if (inner.open) build();
  else inner.addEventListener("toggle", build, { once: true });
  return h("div", { class: "deep" }, h("dt", { class: "unseen" }, String(name)), h("dd", {}, inner));
}

function scalar(value) {
  if (typeof value !== "string") return h("span", { class: "scalar" }, JSON.stringify(value));
  if (value.length <= 400) return h("span", { class: "string" }, value);
  return h("details", {}, h("summary", { class: "string" }, cut(value.replace(/\s+/g, " "), 120)), h("span", { class: "string" }, value));
}
