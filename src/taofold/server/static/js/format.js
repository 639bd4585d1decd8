/** Values as people read them. Pure. */

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60000);
  if (minutes < 60) return `${minutes} min ${Math.round((ms % 60000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function dollars(usd) {
  if (!usd) return "$0";
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

export function count(n) {
  if (n < 1000) return String(n ?? 0);
  if (n < 1e6) return `${(n / 1000).toFixed(n < 1e4 ? 1 : 0)}k`;
  return `${(n / 1e6).toFixed(1)}M`;
}

export const several = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

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

// Joiners count beside ASCII: emoji and other scripts need them.
const UNSEEN = /(?![\t\n\u200c\u200d])[\p{Cc}\p{Cf}\u2028\u2029]|[\u200c\u200d](?=[\0-\x7f]|$)|(?<=[\0-\x7f]|^)[\u200c\u200d]/gu;
const code = (one) => one.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");

/** `text` with what is unseen, or reorders it, as JSON escapes. */
export const visible = (text) => text.replaceAll("\r\n", "\n").replace(UNSEEN, code);

export const cut = (text, most = 160) => visible(text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** JSON as indented text; texts stay texts. */
export const pretty = (value) => visible(typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");

/** Parameters on one line: `job: "checkout", branch: "main"`. */
export const brief = (parameters) =>
  Object.entries(parameters ?? {})
    .map(([name, value]) => `${name}: ${cut(JSON.stringify(value) ?? "", 80)}`)
    .join(", ");
