/** JSON for reading: names beside values, deep or long parts folded. */

import { h } from "./dom.js";
import { Exact, parse, written } from "./exact.js";
import { cut, unambiguous } from "./format.js";

const OPEN = 2;
const DEEP = 4;
const MOST = 100;
const LONG = 400;

/**
 * Returns `value` as an element. A string with a JSON object or array is shown as one.
 *
 * `open` shows everything that fits on a card; the rest is in folds that `folds` finds.
 */
export function readable(value, open = false) {
  const held = typeof value === "string" && !open ? parsed(value) : value;
  if (typeof held === "string") return h("pre", { tabindex: 0 }, held);
  if (scalarly(held)) return h("pre", { tabindex: 0 }, written(held));
  return h("div", { class: "json", tabindex: 0, role: "group", "aria-label": "JSON" }, tree(held, 0, open));
}

/** Returns the closed folds in `node`. */
export const folds = (node) => [...node.querySelectorAll("details.fold:not([open])")];

/** Returns text as a block for each line, so that wrapped rows differ from new lines. */
export const lined = (text) => h("span", { class: "lines" }, text.split("\n").map((line) => h("span", {}, line)));

function parsed(text) {
  const trimmed = text.trim();
  if (trimmed.length > 200000 || !/^(\{[^]*\}|\[[^]*\])$/.test(trimmed)) return text;
  try {
    return parse(trimmed);
  } catch {
    return text;
  }
}

export const scalarly = (value) => value === null || typeof value !== "object" || value instanceof Exact;

function tree(value, depth, open) {
  const entries = Array.isArray(value) ? value.map((one, n) => [n, one]) : Object.entries(value);
  if (!entries.length) return h("span", { class: "scalar" }, Array.isArray(value) ? "[]" : "{}");
  return rows(entries, depth, open);
}

/** Returns the first hundred entries, and a fold with the next ones. */
function rows(entries, depth, open) {
  const rest = entries.slice(MOST);
  return h("dl", {}, entries.slice(0, MOST).map(([name, one]) => pair(name, one, depth, open)),
    rest.length > 0 && h("div", { class: "deep" }, h("dt", { class: "unseen" }, "more"), h("dd", {},
      fold(h("summary", {}, `and ${rest.length} more`), () => rows(rest, depth, open)))));
}

// Folded content is built when it is opened, so a large value costs nothing before.
function fold(summary, build, open = false) {
  const node = h("details", { class: "fold", open }, summary);
  const see = () => {
    if (node.open && node.childElementCount === 1) node.append(build());
    node.dispatchEvent(new CustomEvent("seen", { bubbles: true }));
  };
  see();
  node.addEventListener("toggle", see);
  return node;
}

function pair(name, value, depth, open) {
  if (scalarly(value)) return h("div", {}, h("dt", {}, called(name)), h("dd", {}, scalar(value)));
  // A deeper indentation would exceed the width of the card.
  if (open && depth > DEEP) return h("div", {}, h("dt", {}, called(name)), h("dd", {}, lined(unambiguous(written(value)))));
  const size = Array.isArray(value) ? value.length : Object.keys(value).length;
  const inner = fold(h("summary", {}, h("span", { class: "key" }, called(name)), h("span", { class: "size" }, ` ${size} ${Array.isArray(value) ? "items" : "names"}`)),
    () => tree(value, depth + 1, open), size <= (open ? MOST : 12) && (open || depth < OPEN - 1));
  return h("div", { class: "deep" }, h("dt", { class: "unseen" }, called(name)), h("dd", {}, inner));
}

/** Returns a name in a form that differs from every other name and from numbers of a list. */
export const called = (name) => (typeof name === "number" || /^[A-Za-z_][\w-]*$/.test(name) ? String(name) : `"${unambiguous(name)}"`);

/** Returns a value in a form that differs from every other: strings in quotes. Long ones are folded, unless `whole`. */
export function scalar(value, whole = false) {
  if (typeof value !== "string") return h("span", { class: "scalar" }, written(value));
  const node = () => h("span", { class: "string" }, lined(`"${unambiguous(value)}"`));
  return whole || value.length <= LONG ? node() : fold(h("summary", { class: "string" }, cut(value.replace(/\s+/g, " "), 120)), node);
}
