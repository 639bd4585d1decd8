/**
 * The client of the server's HTTP API. Errors are `Problem`s with the server's text.
 *
 * The session's secret is stored for the page's host and port. Cookies would be sent to every port of this
 * machine, and a page at another port could set them. Each request sends it in a header, which no
 * other page can set.
 */

import { inexact, parse, written } from "./exact.js";

const KEY = "taofold.session";
let secret = kept();

function kept() {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return ""; // a browser without storage: signed in until the page is closed
  }
}

function keep(value) {
  secret = value;
  try {
    if (value) localStorage.setItem(KEY, value);
    else localStorage.removeItem(KEY);
  } catch {
    // as above
  }
}

// Another tab signed in or out, so this tab must not show the earlier principal's data.
addEventListener("storage", (event) => {
  if ((event.key === KEY || event.key === null) && kept() !== secret) location.reload();
});

export class Problem extends Error {
  constructor(status, message, code = "") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Returns the response to a request with the session's secret, also an error. */
export async function send(path, { headers = {}, ...options } = {}) {
  const own = secret ? { Authorization: `Session ${secret}` } : {};
  try {
    return await fetch(path, { credentials: "omit", headers: { ...headers, ...own }, ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server cannot be reached. Is `taofold serve` still running?");
  }
}

async function ask(path, options = {}) {
  const mine = secret;
  const answer = await send(path, options);
  const text = await answer.text();
  let said = {};
  try {
    said = text ? parse(text) : {};
  } catch {
    said = { detail: text.slice(0, 300) };
  }
  if (answer.ok) return said;
  if (answer.status === 401 && mine && mine === secret) {
    keep("");
    document.dispatchEvent(new CustomEvent("signedout"));
  }
  throw new Problem(answer.status, said.detail || said.title || answer.statusText, said.code);
}

export const get = (path) => ask(path, { headers: { Accept: "application/json" } });

export async function post(path, body = {}) {
  const lost = inexact(body);
  if (lost) throw new Problem(422, `${lost} cannot be sent exactly from a browser: use \`taofold approvals approve ID --parameters JSON\`.`);
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json", Accept: "application/json" }, body: written(body) });
}

/** Returns whether this page has a session. */
export const signedIn = () => secret !== "";

/** Returns the signed-in principal. */
export const me = () => get("/me");

/** Signs in with `{ token }`, or with the `{ code }` of a one-time link. */
export async function signIn(by) {
  const said = await post("/signin", by);
  keep(said.session);
}

/** Ends the session, here and in every other tab. */
export async function signOut() {
  try {
    await post("/signout");
  } finally {
    keep("");
  }
}

/** Encodes a part of a path. */
export const part = encodeURIComponent;
