/** Builds elements. Text is always inserted as text, never as HTML, and hidden characters are shown. */

import { prose } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element with properties and children; `onclick` and similar become listeners. */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  return dressed(node, props, children);
}

/** Makes an SVG element. */
export function s(tag, props = {}, ...children) {
  return dressed(document.createElementNS(SVG, tag), props, children);
}

function dressed(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), single(value));
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((one) => (one ?? false) !== false).map((one) => (typeof one === "string" && node.localName !== "textarea" ? prose(one) : one)));
  return node;
}

/** Returns `action` that does nothing, also for a form, while its previous call is not finished. */
export function single(action) {
  let busy = false;
  return (event) => {
    if (busy) return event?.preventDefault?.();
    const done = action(event);
    if (done instanceof Promise) {
      busy = true;
      done.finally(() => (busy = false));
    }
    return done;
  };
}

/**
 * Returns a function that begins a turn: it returns `mine()`, true until the next turn begins. A reply is
 * shown only in its own turn, so a newer request, another choice and a left page drop it.
 */
export function turns() {
  let last = 0;
  return () => {
    const mine = ++last;
    return () => mine === last;
  };
}

/** Calls `load` now, and again `every` milliseconds after it ended. Returns a function that stops. */
export function poll(load, every) {
  let timer = 0;
  let over = false;
  const next = () => over || (timer = setTimeout(() => (document.hidden ? next() : load().finally(next)), every));
  load().finally(next);
  return () => {
    over = true;
    clearTimeout(timer);
  };
}

/** Loads once into `node`, where `draw` returns its content. Returns a function for when the page is left. */
export function loaded(node, what, load, draw) {
  const turn = turns();
  async function look() {
    const mine = turn();
    fill(node, loading(what));
    try {
      const said = await load();
      if (mine()) fill(node, draw(said));
    } catch (error) {
      if (mine()) fill(node, failed(error, look));
    }
  }
  look();
  return turn;
}

/** Shows the error of `action`, which sends a request. */
export const tried = (action) => action().catch((error) => toast(error.message, "bad"));

/** Replaces the content of `node` by `children`. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((one) => one));
  return node;
}

/** Shows a view: its title, what it is, and its content. */
export function view(main, title, lead, ...content) {
  document.title = `${title} · taofold`;
  fill(main, h("header", { class: "viewhead" }, h("h1", {}, title), h("p", { class: "lead" }, lead)), content);
}

/** Shows a short message for a moment, also to screen readers. */
export function toast(text, kind = "") {
  const note = h("p", { class: `toast ${kind}` }, text);
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 9000 : 5000);
}

const KEPT = 5;
let said = "";
let due = 0;

/**
 * Announces `text` to screen readers; several in quick succession are joined.
 *
 * The live region is a log: new text is added and read out, and earlier text stays.
 * Replacing it would drop text that the reader has not read yet.
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

/** The displays while something loads, is missing, or failed. */
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
