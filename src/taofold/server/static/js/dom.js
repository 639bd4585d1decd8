/** Builds elements. Text is always text: nothing in the console can insert HTML or hide. */

import { prose } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element with properties and children; `onclick` and the like become listeners. */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  return dressed(node, props, children);
}

/** The same for SVG. */
export function s(tag, props = {}, ...children) {
  return dressed(document.createElementNS(SVG, tag), props, children);
}

function dressed(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((one) => (one ?? false) !== false).map((one) => (typeof one === "string" && node.localName !== "textarea" ? prose(one) : one)));
  return node;
}

/** Put `children` in the place of what `node` holds. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((one) => one));
  return node;
}

/** A short message for a moment, also for screen readers. */
export function toast(text, kind = "") {
  const note = h("p", { class: `toast ${kind}` }, text);
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 9000 : 5000);
}

const KEPT = 5;
let said = "";
let due = 0;

/**
 * Say `text` to screen readers; several in quick succession become one.
 *
 * The live region is a log: what is new is added and read out, and what was said just before stays.
 * Replacing it would silence whatever the reader has not come to yet.
 */
export function announce(text) {
  said = said ? `${said}. ${text}` : text;
  if (due) return;
  due = setTimeout(() => {
    const region = document.getElementById("live");
    region.append(h("p", {}, said.slice(-300)));
    while (region.childElementCount > KEPT) region.firstElementChild.remove();
    said = "";
    due = 0;
  }, 700);
}

/** What is shown while something loads, is missing, or failed. */
export const loading = (what) => h("p", { class: "loading", role: "status" }, `Loading ${what}`);

export function empty(title, text, ...more) {
  return h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, text), more);
}

export function failed(error, again) {
  return h(
    "div",
    { class: "empty failed", role: "alert" },
    h("h2", {}, "This could not be loaded"),
    h("p", {}, error.message || String(error)),
    again && h("button", { type: "button", onclick: again }, "Try again"),
  );
}
