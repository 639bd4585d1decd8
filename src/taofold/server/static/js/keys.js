/** Keyboard shortcuts: single keys, and `g` followed by a letter. Disabled in text fields. */

const bound = new Map();
const REPEATED = new Set(["j", "k", "[", "]", "{", "}"]);
let leader = 0;

export const SHORTCUTS = [
  ["g r, g a, g s, g e", "go to runs, approvals, sessions, evals"],
  ["g l, g p, g m", "go to loops, patterns, learning"],
  ["g n, g b, g o", "go to memory, budgets, policy"],
  ["n", "start a run"],
  ["/", "filter the list"],
  ["j, k", "next and previous entry"],
  ["Enter", "open the entry"],
  ["a, d", "approve or deny: first press selects the question, second decides"],
  ["[, ]", "one event back, one event forward"],
  ["Shift + [, Shift + ]", "ten events back, ten forward"],
  ["c", "compare this event with others"],
  ["f", "fork from here"],
  ["w", "times of this run"],
  ["p", "prompt of the model; [ and ] show the previous and next call"],
  ["Esc", "back to now; close"],
  ["t", "light or dark"],
  ["?", "this page"],
];

/** Binds keys until the returned function is called. */
export function keys(table) {
  for (const [key, action] of Object.entries(table)) bound.set(key, action);
  return () => {
    for (const [key, action] of Object.entries(table)) {
      if (bound.get(key) === action) bound.delete(key);
    }
  };
}

function typing(target) {
  const tag = target.tagName;
  return tag === "INPUT" && target.type !== "range" || tag === "TEXTAREA" || tag === "SELECT" || target.isContentEditable;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (document.querySelector("dialog[open]") && event.key !== "Escape") return;
  let key = event.key;
  if (leader && Date.now() - leader < 1500) key = `g ${key}`;
  leader = 0;
  if (key === "g") {
    leader = Date.now();
    return;
  }
  // A held key would decide one card after the other.
  if (event.repeat && !REPEATED.has(key)) return;
  const action = bound.get(key);
  if (action && action(event) !== false) event.preventDefault();
});

/** Moves the focus through `selector` by `step`. */
export function walk(selector, step) {
  const all = [...document.querySelectorAll(selector)];
  if (!all.length) return;
  const here = all.indexOf(document.activeElement?.closest?.(selector));
  all[Math.min(all.length - 1, Math.max(0, here + step))].focus();
}
