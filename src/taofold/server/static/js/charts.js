/** Small SVG charts: a line over an index, and bars by name. Each also has its figures as text. */

import { h, s } from "./dom.js";

const HEIGHT = 190;
const LEFT = 46;
const BOTTOM = 26;

/**
 * Draws a line through `points` (`{x, y, label}` with y from 0 to `top`); `second` is dashed.
 * `title` is for screen readers, `wide` is the width of the drawing.
 */
export function line(points, { title, top, unit = "", second = [], names = ["", ""], wide: WIDTH = 540 }) {
  const found = Math.max(0, ...points.map((p) => p.y), ...second.map((p) => p.y));
  const most = top ?? (found > 0 && points.every((p) => p.y <= 1) ? found : Math.max(1, found));
  const last = Math.max(1, points.length - 1);
  const x = (i) => LEFT + (i / last) * (WIDTH - LEFT - 14);
  const y = (value) => 12 + (1 - value / most) * (HEIGHT - BOTTOM - 12);
  const path = (list) => list.map((p, i) => `${i ? "L" : "M"}${x(p.x ?? i).toFixed(1)} ${y(p.y).toFixed(1)}`).join("");
  const marks = [0, most / 2, most];
  const figure = (value) => `${value % 1 ? value.toFixed(value < 0.1 ? 4 : value < 1 ? 2 : 1) : value}${unit}`;
  return h("figure", { class: "figure" },
    s("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${points.map((p) => `${p.label} ${figure(p.y)}`).join(", ")}` },
      marks.map((value) => [s("line", { class: "axis", x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value) }),
        s("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, figure(value))]),
      second.length > 1 && s("path", { class: "second", d: path(second) }),
      points.length > 1 && s("path", { class: "line", d: path(points) }),
      points.map((p, i) => s("circle", { class: "point", cx: x(p.x ?? i), cy: y(p.y), r: 4 }, s("title", {}, `${p.label}: ${figure(p.y)}`))),
      points.filter((_, i) => points.length <= 12 || i % Math.ceil(points.length / 12) === 0)
        .map((p) => s("text", { x: x(p.x ?? points.indexOf(p)), y: HEIGHT - 6, "text-anchor": "middle" }, p.short ?? p.label))),
    names[1] && h("figcaption", { class: "lead" }, `${names[0]} (line), ${names[1]} (dashed)`));
}

/** Draws a share from 0 to 1 as a thin bar. Its figure must be beside it. */
export function meter(share) {
  return h("span", { class: "meter", "aria-hidden": "true" },
    s("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none" }, s("rect", { width: 100 * Math.min(1, Math.max(0, share ?? 0)), height: 6 })));
}
