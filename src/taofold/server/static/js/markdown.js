/**
 * Markdown as elements: headings, lists, tables, quotes, code, emphasis, links.
 *
 * The text comes from a model. HTML in it stays text, nothing is loaded (an image is a link), and a
 * link goes only to http, https or mailto and shows its target. Each line is read once.
 */

import { h } from "./dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const CELLS = /^\s*\|.*\|\s*$/;
const BAR = /^\s*\|(\s*:?-+:?\s*\|)+\s*$/;
const DEEPEST = 8;

const LONGEST = 200000;

/** Returns `text` as a list of elements. */
export function markdown(text) {
  if (String(text ?? "").length > LONGEST) return [h("pre", { tabindex: 0 }, text)];
  return blocks(String(text ?? "").replaceAll("\r\n", "\n").split("\n"), 0);
}

function blocks(lines, depth) {
  const made = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    if (!line.trim()) at += 1;
    else if (fence) {
      let last = at + 1;
      while (last < lines.length && !closes(lines[last].trim(), fence[1])) last += 1;
      made.push(h("pre", { tabindex: 0 }, h("code", { "data-language": fence[2] || null }, lines.slice(at + 1, last).join("\n"))));
      at = last + 1;
    } else if (heading) {
      made.push(h(`h${Math.min(6, heading[1].length + 3)}`, { class: `md${heading[1].length}` }, inline(heading[2])));
      at += 1;
    } else if (RULE.test(line)) {
      made.push(h("hr"));
      at += 1;
    } else if (/^ {0,3}>/.test(line) && depth < DEEPEST) {
      const inner = during(lines, at, (other) => /^ {0,3}>/.test(other));
      made.push(h("blockquote", {}, blocks(inner.map((other) => other.replace(/^ {0,3}> ?/, "")), depth + 1)));
      at += inner.length;
    } else if (ITEM.test(line) && depth < DEEPEST) {
      const [node, used] = list(lines.slice(at), depth);
      made.push(node);
      at += used;
    } else if (CELLS.test(line) && BAR.test(lines[at + 1] ?? "")) {
      const rows = during(lines, at, (other) => CELLS.test(other));
      made.push(table(rows));
      at += rows.length;
    } else {
      const words = during(lines, at, (other, n) => other.trim() && (n === at || !starts(other, depth)));
      made.push(h("p", {}, inline(words.join("\n"))));
      at += words.length;
    }
  }
  return made;
}

const closes = (line, mark) => line.startsWith(mark) && !line.replaceAll(mark[0], "");
const starts = (line, depth) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) || (depth < DEEPEST && (ITEM.test(line) || /^ {0,3}>/.test(line)));

function during(lines, from, holds) {
  let end = from;
  while (end < lines.length && holds(lines[end], end)) end += 1;
  return lines.slice(from, Math.max(end, from + 1));
}

/** Returns a list that begins with the first line, and its number of lines. */
function list(lines, depth) {
  const [, indent, mark] = ITEM.exec(lines[0]);
  const ordered = /\d/.test(mark);
  const items = [];
  let at = 0;
  for (; at < lines.length; at += 1) {
    const found = ITEM.exec(lines[at]);
    const margin = lines[at].length - lines[at].trimStart().length;
    if (found && found[1].length <= indent.length) {
      if (found[1].length < indent.length || /\d/.test(found[2]) !== ordered) break;
      items.push([found[3]]);
    } else if (!lines[at].trim()) {
      const next = lines[at + 1] ?? "";
      if (!next.trim() || (!ITEM.test(next) && !next.startsWith(`${indent}  `))) break;
      items.at(-1).push("");
    } else if (margin > indent.length) items.at(-1).push(lines[at].slice(Math.min(margin, indent.length + 2)));
    else break;
  }
  const shown = items.map((inner) => h("li", {}, inner.length === 1 ? inline(inner[0]) : blocks(inner, depth + 1)));
  return [h(ordered ? "ol" : "ul", ordered ? { start: Number.parseInt(mark, 10) } : {}, shown), at];
}

function table(rows) {
  const cells = (line) => line.trim().slice(1, -1).split("|").map((cell) => cell.trim());
  const head = cells(rows[0]);
  return h("div", { class: "scroll", tabindex: 0 }, h("table", { class: "table" },
    h("thead", {}, h("tr", {}, head.map((cell) => h("th", {}, inline(cell))))),
    h("tbody", {}, rows.slice(2).map((line) => h("tr", {}, cells(line).slice(0, head.length).map((cell) => h("td", {}, inline(cell))))))));
}

const SPAN = /(`+)([^`]|[^`][^]{0,2000}?[^`])\1(?!`)|!?\[([^\][\n]{0,500})\]\(\s*<?([^\s()<>]{1,2000})>?(?:\s+"[^"\n]*")?\s*\)|(\*\*|__)(?=\S)([^\n]{1,2000}?\S)\5|([*_])(?=[^\s*_])([^\n*_]{1,2000}?)\7(?!\w)|(https?:\/\/[^\s<>()"'`]{1,2000}[^\s<>()"'`.,;:!?])/g;

/** Returns the spans of a line. */
function inline(text, depth = 0) {
  const made = [];
  let at = 0;
  for (const found of depth > 3 ? [] : text.matchAll(SPAN)) {
    const [all, ticks, code, label, target, strong, bold, soft, italic, bare] = found;
    made.push(text.slice(at, found.index));
    at = found.index + all.length;
    if (ticks) made.push(h("code", {}, code.trim() || code));
    else if (target) made.push(link(label, target));
    else if (strong) made.push(h("strong", {}, inline(bold, depth + 1)));
    else if (soft) made.push(/\w$/.test(text.slice(0, found.index)) ? all : h("em", {}, inline(italic, depth + 1)));
    else made.push(link("", bare));
  }
  made.push(text.slice(at));
  return made;
}

/** Returns a link that shows its target; other schemes than http, https and mailto stay text. */
function link(label, target) {
  let url = null;
  try {
    url = new URL(target);
  } catch {
    // a relative address would lead to this console
  }
  if (!url || !["http:", "https:", "mailto:"].includes(url.protocol)) return label ? `${label} (${target})` : target;
  // `host` is in punycode, because other alphabets have look-alike letters.
  const where = url.host || url.pathname;
  const words = (label || target).trim();
  const node = h("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank" }, label || target);
  const begins = url.host ? `${url.protocol}//${url.host}` : `${url.protocol}${url.pathname}`;
  const clear = words === target && (words === begins || /^[/?#]/.test(words.slice(begins.length))) && words.startsWith(begins);
  return clear ? node : [node, h("span", { class: "leads" }, ` (${where})`)];
}
