/** Events that a rewind took back: no longer part of the run, but still readable. */

import { announce, h } from "./dom.js";
import { several } from "./format.js";

/**
 * Folds away the entries of `list` after the event that `event` rewinds to, and removes them from
 * `known`, maps to elements. Returns the last step that still counts.
 */
export function takeBack(root, list, event, known) {
  const late = (node) => node.dataset.run === event.run && node.dataset.seq !== "" && Number(node.dataset.seq) > event.to;
  const own = [...root.querySelectorAll("[data-seq]")].filter((node) => late(node) && !node.closest(".undone"));
  const steps = own.filter((node) => node.classList.contains("step"));
  const fold = h("details", {}, h("summary", {}, `${several(steps.length, "step")} taken back`));
  const story = h("ol", { class: "story" });
  fold.append(story);
  for (const node of own) {
    if (node.classList.contains("step")) story.append(node);
    else if (node.closest(".ending")) node.remove();
    else if (!story.contains(node)) node.classList.add("undone");
    for (const button of node.querySelectorAll(".card button")) button.disabled = true;
  }
  if (steps.length) list.append(h("li", { class: "undone" }, fold));
  announce(`${several(steps.length, "step")} taken back`);
  for (const map of known) {
    for (const [name, one] of map) {
      const node = one.list ?? one.node ?? one;
      if (node.closest(".undone") || !root.contains(node)) map.delete(name);
    }
  }
  return [...list.children].reverse().find((node) => node.classList.contains("step"));
}
