/** Ratings of a run: a verdict and a note, stored beside its log. */

import { get, part, post } from "./api.js";
import { fill, h, toast, tried } from "./dom.js";
import { ago } from "./format.js";

const word = (value) => (value === 1 ? "good" : value === 0 ? "bad" : `${Math.round(100 * value)} %`);

/** Makes a panel for the ratings of `run`; `show()` displays existing ones and allows new ones. */
export function rating(run) {
  const told = h("ul", { class: "ratings" });
  const note = h("input", { id: "why", name: "note", maxlength: 2000, autocomplete: "off", placeholder: "Reason, or the right answer" });
  const panel = h("form", { class: "rating", hidden: true, "aria-label": "Rating", onsubmit: (event) => event.preventDefault() },
    h("h3", {}, "Was this right?"), h("label", { class: "unseen", for: "why" }, "Why"), note,
    [["Good", 1], ["Bad", 0]].map(([name, value]) => h("button", { type: "button", onclick: () => give(value) }, name)), told);
  let asked = false;

  function draw({ items }) {
    fill(told, items.map((one) => h("li", { class: "note" }, h("strong", { class: one.value < 0.5 ? "bad" : "good" }, word(one.value)),
      ` by ${one.by}, ${ago(one.at)}`, one.note && `: ${one.note}`)));
  }

  const give = (value) => tried(async () => {
    const text = note.value;
    draw(await post(`/runs/${part(run)}/ratings`, { value, note: text }));
    if (note.value === text) note.value = "";
    toast("Kept beside the run. `taofold eval --from-rated` makes cases of such runs.");
  });

  async function show() {
    if (asked) return;
    asked = true;
    try {
      const known = await get(`/runs/${part(run)}/ratings`);
      draw(known);
      panel.hidden = !known.kept;
    } catch {
      asked = false; // the connection's status already shows that the server is unreachable
    }
  }

  return { panel, show };
}
