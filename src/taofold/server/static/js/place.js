/** Where the console is: `#/section/one?name=value`. What is chosen on a page stands in its address. */

/** The parts of the address: section, the one thing shown, a second one, and what is chosen. */
export function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [section = "runs", one = "", other = ""] = path.split("/").map(decoded);
  return { section, one, other, chosen: new URLSearchParams(query) };
}

/** Writes what is chosen into the address, without a new entry in the browser's history. */
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

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
