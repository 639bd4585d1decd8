/** The server's HTTP interface. Errors are `Problem`s with the server's own words. */

let csrf = "";

export class Problem extends Error {
  constructor(status, message, code = "") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw new Problem(0, "The server cannot be reached. Is `taofold serve` still running?");
  }
  const text = await answer.text();
  let said = {};
  try {
    said = text ? JSON.parse(text) : {};
  } catch {
    said = { detail: text.slice(0, 300) };
  }
  if (!answer.ok) {
    throw new Problem(answer.status, said.detail || said.title || answer.statusText, said.code);
  }
  return said;
}

export const get = (path) => ask(path, { headers: { Accept: "application/json" } });

export function post(path, body = {}) {
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  if (csrf) headers["X-CSRF-Token"] = csrf;
  return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
}

/** Who is signed in. Must come before the first `post`. */
export async function me() {
  const said = await get("/me");
  csrf = said.csrf || "";
  return said;
}

export async function signIn(token) {
  const said = await post("/signin", { token });
  csrf = said.csrf || "";
  return said;
}

/** A part of a path. */
export const part = encodeURIComponent;
