/** Values as readable text. Pure. */

import { written } from "./exact.js";

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60000);
  if (minutes < 60) return `${minutes} min ${Math.round((ms % 60000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Returns the dollars of a run, or of a sum without `unpriced` tokens; null is an unknown price. */
export function dollars(usd, unpriced = 0) {
  if (usd === null || (!usd && unpriced)) return "unknown cost";
  if (unpriced) return `${dollars(usd)} + unknown cost`;
  if (!usd) return "$0";
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

export function count(n) {
  if (n < 1000) return String(n ?? 0);
  if (n < 1e6) return `${(n / 1000).toFixed(n < 1e4 ? 1 : 0)}k`;
  return `${(n / 1e6).toFixed(1)}M`;
}

export const several = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

/** Returns a line for each open conflict of the merge of a child's files. */
export function conflicts(open) {
  if (!open) return [];
  const more = open.count - open.files.length;
  return [...open.files.map(({ path, why }) => `Open conflict: ${path} (${why}); the child's version: ${open.folder}/${path}`),
    ...(more > 0 ? [`${more} more open conflicts in ${open.folder}`] : [])];
}

export const percent = (share) =>
  share === null || share === undefined ? "–" : `${Math.round(100 * share)} %`;

export const moment = (at) => new Date(at);

export function clock(at) {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

export function ago(at, now = Date.now()) {
  const seconds = Math.max(0, (now - new Date(at).getTime()) / 1000);
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`;
  return new Date(at).toLocaleDateString();
}

// As in `core/text.py`: control, format and default ignorable characters, and two invisible ones.
const UNSEEN = String.raw`\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d159}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\ud800-\udfff`;
const SYMBOL = String.raw`\xa9\xae\u203c-\u27ff\u2900-\u33ff\u{1f000}-\u{1faff}`;
const STRICT = new RegExp(`[${UNSEEN}]`, "gu");
// Emoji and some scripts need a joiner between two characters, and a selector after a symbol.
const PROSE = new RegExp(
  String.raw`((?<=[^\x00-\x7f${UNSEEN}])[\u200c\u200d](?=[^\x00-\x7f${UNSEEN}])|(?<=[${SYMBOL}])\ufe0f(?:\u200d(?=[${SYMBOL}]))?|(?<=[0-9#*])\ufe0f(?=\u20e3))|[${UNSEEN}]`, "gu");
const code = (one) => one.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");

/** Returns `text` with invisible and reordering characters as JSON escapes: for names and questions. */
export const visible = (text) => text.replaceAll("\r\n", "\n").replace(STRICT, code);

/** The same for prose, which keeps the characters that emoji and scripts need. */
export const prose = (text) => text.replaceAll("\r\n", "\n").replace(PROSE, (one, needed) => needed ?? code(one));

export const cut = (text, most = 160) => visible(text.length > most ? `${text.slice(0, most - 1)}…` : text);

// Marks that are drawn over the character before them; those of scripts only at the start of a line.
const OVER = String.raw`\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f`;
const ALIKE = new RegExp(String.raw`[${UNSEEN}\xa0\u1680\u2000-\u200a\u202f\u205f\u3000⇥${OVER}]|(?<![^\n])\p{M}|\\(?=u[0-9a-f]{4})|(?<![ \t])[ \t]+(?![^\n])|\t`, "gu");

/** Returns `text` so that no two texts look alike: also marks spaces at ends of lines, tabs (⇥) and its own escapes. */
export const unambiguous = (text) => text.replace(ALIKE, (one, at) => (one === "\t" && !["", "\n"].includes(text.slice(at + 1, at + 2)) ? "⇥\t" : code(one)));

/** Returns JSON as indented text; strings stay as they are. */
export const pretty = (value) => visible(typeof value === "string" ? value : written(value, 2));

/** Returns parameters on one line: `job: "checkout", branch: "main"`. */
export const brief = (parameters) =>
  Object.entries(parameters ?? {})
    .map(([name, value]) => `${name}: ${cut(written(value), 80)}`)
    .join(", ");
