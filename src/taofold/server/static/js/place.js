/** The address of the console: `#/section/one?name=value`. It holds the choices of a page. */

import { toast } from "./dom.js";

/** Returns the parts of the address: section, the shown object, a second one, and the choices. */
export function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [section = "runs", one = "", other = ""] = path.split("/").map(decoded);
  return { section, one, other, chosen: new URLSearchParams(query) };
}

/** Writes the choices into the address, without a new entry in the browser's history. */
export function choose(values) {
  const [path, query = ""] = location.hash.split("?", 2);
  const chosen = new URLSearchParams(query);
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === null || value === undefined) chosen.delete(name);
    else chosen.set(name, String(value));
  }
  const text = chosen.toString();
  history.replaceState(null, "", `${path || "#/runs"}${text ? `?${text}` : ""}`);
}

/** Returns a function that shows the page anew, unless the user has left it. */
export function again() {
  const path = () => location.hash.split("?", 1)[0];
  const here = path();
  return () => path() === here && dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Returns the listener of a form: after `send` it shows `done` and the page anew, or the error in `wrong`. */
export const sending = (wrong, send, done) => async (event) => {
  event.preventDefault();
  const show = again();
  try {
    await send();
    toast(done);
    show();
  } catch (error) {
    wrong.textContent = error.message;
  }
};

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
