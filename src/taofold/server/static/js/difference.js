/** A state as paths and values, and the differences of two states. Pure. */

/** Returns `{a: {b: 1}}` as `{"a.b": 1}`. Empty values, null and false are left out. */
export function paths(value, at = "", found = {}) {
  if (value !== null && typeof value === "object") {
    for (const [name, one] of Object.entries(value)) paths(one, at ? `${at}.${name}` : name, found);
  } else if (value !== null && value !== "" && value !== false) found[at] = value;
  return found;
}

/** Returns `[{path, before, after, kind}]` with kind added, removed or changed, in order of the path. */
export function difference(before, after) {
  const a = paths(before);
  const b = paths(after);
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])].sort(naturally);
  const found = [];
  for (const path of names) {
    const was = path in a;
    const is = path in b;
    if (was && is && JSON.stringify(a[path]) === JSON.stringify(b[path])) continue;
    found.push({ path, before: a[path], after: b[path], kind: !was ? "added" : !is ? "removed" : "changed" });
  }
  return found;
}

const collator = new Intl.Collator("en", { numeric: true });
const naturally = (a, b) => collator.compare(a, b);
