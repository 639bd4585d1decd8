/** JSON to read: names beside values, what is deep or long folded away. */

import { h } from "./dom.js";
import { Exact, parse, written } from "./exact.js";
import { cut } from "./format.js";

const OPEN = 2;
const MOST = 100;
const LONG = 400;

/**
 * `value` as an element; a text that holds a JSON object or array is shown as one.
 *
 * `open` shows all that fits on a card at once; the rest is in folds that `folds` finds.
 */
export function readable(value, open = false) {
  const held = typeof value === "string" && !open ? parsed(value) : value;
  if (typeof held === "string") return h("pre", { tabindex: 0 }, held);
  if (scalarly(held)) return h("pre", { tabindex: 0 }, written(held));
  return h("div", { class: "json", tabindex: 0, role: "group", "aria-label": "JSON" }, tree(held, 0, open));
}

/** The folds in `node` that nobody has opened yet. */
export const folds = (node) => [...node.querySelectorAll("details.fold:not(.seen)")];

function parsed(text) {
  const trimmed = text.trim();
  if (trimmed.length > 200000 || !/^(\{[^]*\}|\[[^]*\])$/.test(trimmed)) return text;
  try {
    return parse(trimmed);
  } catch {
    return text;
  }
}

const scalarly = (value) => value === null || typeof value !== "object" || value instanceof Exact;

function tree(value, depth, open) {
  const entries = Array.isArray(value) ? value.map((one, n) => [n, one]) : Object.entries(value);
  if (!entries.length) return h("span", { class: "scalar" }, Array.isArray(value) ? "[]" : "{}");
  return rows(entries, depth, open);
}

/** The first hundred, and a fold with the next ones. */
function rows(entries, depth, open) {
  const rest = entries.slice(MOST);
  return h("dl", {}, entries.slice(0, MOST).map(([name, one]) => pair(name, one, depth, open)),
    rest.length > 0 && h("div", { class: "deep" }, h("dt", { class: "unseen" }, "more"), h("dd", {},
      fold(h("summary", {}, `and ${rest.length} more`), () => rows(rest, depth, open)))));
}

// What is folded is built when it is opened: a large value costs nothing until somebody looks.
function fold(summary, build, open = false) {
  const node = h("details", { class: "fold", open }, summary);
  const see = () => {
    if (node.classList.contains("seen")) return;
    node.classList.add("seen");
    node.append(build());
    node.dispatchEvent(new CustomEvent("seen", { bubbles: true }));
  };
  if (open) see();
  else node.addEventListener("toggle", () => node.open && see());
  return node;
}

function pair(name, value, depth, open) {
  if (scalarly(value)) return h("div", {}, h("dt", {}, String(name)), h("dd", {}, scalar(value)));
  const size = Array.isArray(value) ? value.length : Object.keys(value).length;
  const inner = fold(h("summary", {}, h("span", { class: "key" }, String(name)), h("span", { class: "size" }, ` ${size} ${Array.isArray(value) ? "items" : "names"}`)),
    () => tree(value, depth + 1, open), size <= (open ? MOST : 12) && depth < (open ? 8 : OPEN - 1));
  return h("div", { class: "deep" }, h("dt", { class: "unseen" }, String(name)), h("dd", {}, inner));
}

function scalar(value) {
  if (typeof value !== "string") return h("span", { class: "scalar" }, written(value));
  if (value.length <= LONG) return h("span", { class: "string" }, value);
  return fold(h("summary", { class: "string" }, cut(value.replace(/\s+/g, " "), 120)), () => h("span", { class: "string" }, value));
}
