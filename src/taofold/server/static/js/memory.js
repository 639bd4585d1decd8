/** The notes of agents about the signed-in user: read, correct, pin and delete. */

import { part, post } from "./api.js";
import { empty, h, loading, view } from "./dom.js";
import { ago, visible } from "./format.js";
import { fresh } from "./loops.js";
import { sending } from "./place.js";

export function memoryView(main) {
  const list = h("div", {}, loading("notes"));
  view(main, "Memory", "Notes that agents keep about you. Their later runs read them.", list);
  return fresh(list, "/memory", ({ items }) => (items.length
    ? h("ol", { class: "rows" }, items.map(row))
    : empty("No notes yet", "Agents with memory write notes here.")));
}

const source = (note) => visible(note.source);

/** Returns a note, with a form that is closed at first. */
function row(note) {
  const wrong = h("p", { class: "wrong", role: "alert" });
  const text = h("textarea", { rows: 3, name: "text", required: true });
  text.value = note.text;
  const send = (verb, body, done) => sending(wrong, () => post(`/memory/${part(note.id)}/${verb}`, { agent: note.agent, ...body() }), done);
  const forget = send("forget", () => ({}), "The note is deleted.");
  return h("li", {}, h("details", { class: "panel wide entry note", "data-hold": true },
    h("summary", {}, h("span", { class: "pill" }, source(note)), " ", h("span", { class: "goal" }, visible(note.text))),
    h("p", { class: "lead" }, visible(note.agent), " · ", h("time", {}, ago(note.at)), note.pinned && " · pinned",
      note.run && [" · ", h("a", { href: `#/runs/${part(note.run)}` }, "run")], note.by && ` · by ${visible(note.by)}`),
    h("form", { class: "fields", onsubmit: send("edit", () => ({ text: text.value }), "Saved: later runs read the new text.") },
      h("label", {}, h("span", {}, "Text"), text),
      h("div", { class: "buttons" }, h("button", { class: "primary", "data-do": "save" }, "Save"),
        h("button", { type: "button", "data-do": "pin", onclick: send("edit", () => ({ pinned: !note.pinned }), note.pinned ? "The note is no longer pinned." : "The note is pinned: every prompt has it.") }, note.pinned ? "Unpin" : "Pin"),
        h("button", { type: "button", "data-do": "forget", onclick: (event) => confirm("Delete this note permanently?") && forget(event) }, "Delete")), wrong)));
}
