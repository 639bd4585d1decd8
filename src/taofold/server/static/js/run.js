/** One run: its live steps, its costs, and the time slider. */

import { get, part, post } from "./api.js";
import { failed, fill, h, loading, single, toast, tried, turns } from "./dom.js";
import { ago, count, dollars, duration } from "./format.js";
import { chooseOther } from "./compare.js";
import { keys } from "./keys.js";
import { ENDED, follow } from "./live.js";
import { media, words } from "./media.js";
import { again, choose, place } from "./place.js";
import { rating } from "./rating.js";
import { startRun } from "./start.js";
import { timeline } from "./timeline.js";
import { trace } from "./trace.js";

/** Shows the run `id` in `main`. Returns a function to call when the page is left. */
export function runView(main, id) {
  let left = false;
  const undo = [() => (left = true)];
  function load() {
    fill(main, loading("the run"));
    get(`/runs/${part(id)}`).then(
      (run) => left || show(main, run, undo),
      (error) => left || fill(main, failed(error, load)),
    );
  }
  load();
  return () => undo.forEach((one) => one());
}

const VERDICTS = { verified: "verified", unsigned: "unsigned", no_key: "signed by another key", broken: "broken" };
const WIRE = { live: "live", lost: "reconnecting …", ended: "" };
const IDLE = ["forked", "rewound", "interrupted"];
const number = (text) => (/^\d+$/.test(text ?? "") ? Number(text) : null);

function show(main, run, undo) {
  const id = run.id;
  const fork = single((at) => tried(async () => {
    const made = await post(`/runs/${part(id)}/fork`, { at });
    const { restored, folder, why } = made.files ?? {};
    toast(`Forked: this is the new run.${restored ? ` Its files are in ${folder}.` : why ? ` Files were not restored: ${why}.` : ""}`);
    location.hash = `#/runs/${part(made.id)}`;
  }));
  const figures = h("dl", { class: "figures" });
  const proof = h("p", { class: "proof", hidden: true });
  const status = h("span", { class: `pill ${run.status}` }, run.status);
  const wire = h("span", { class: "wire", role: "status" });
  const story = h("section", { class: "trace", "aria-label": "Trace" });
  const told = trace(story, id);
  const { chosen } = place();
  const time = timeline(id, { changed: told.travel, fork, seen: told.timing, chosen: (at, against) => choose({ at, against }),
    at: number(chosen.get("at")), against: number(chosen.get("against")) });
  const cancel = h("button", { type: "button", "data-do": "cancel", onclick: () => stop() }, "Cancel");
  const resume = h("button", { type: "button", "data-do": "resume", onclick: () => goOn() }, "Resume");
  // The page lacks guessed secrets and files of the goal; then only a copy of the run's start repeats it exactly.
  const whole = !run.media?.length && !run.goal.includes("[redacted]");
  const repeat = h("button", { type: "button", "data-do": "again",
    onclick: () => (whole ? startRun({ goal: run.goal, agent: run.agent, session: run.session }) : fork(0)) }, "Run again");
  const beside = h("button", { type: "button", "data-do": "beside", onclick: () => chooseOther(run) }, "Compare");
  const times = h("button", { type: "button", "data-do": "times", title: "w", onclick: () => (location.hash = `#/times/${part(id)}`) }, "Times");
  const prompts = h("button", { type: "button", "data-do": "prompts", title: "p", onclick: () => (location.hash = `#/prompts/${part(id)}`) }, "Prompt");
  const line = h("form", { class: "steer", onsubmit: steer },
    h("label", { class: "unseen", for: "steer" }, "Message to the agent"),
    h("input", { id: "steer", name: "text", maxlength: 2000, autocomplete: "off", placeholder: "Message to the agent, which reads it at its next turn" }),
    h("button", {}, "Send"));
  const opinion = rating(id);
  const title = h("h1", { class: "goal" }, words(run.goal, run.media));

  fill(main, h("article", { class: "run" },
    h("header", { class: "runhead" },
      h("p", { class: "crumbs" }, h("a", { href: "#/runs" }, "Runs"), " / ", h("span", { class: "mono" }, id),
        run.parent && [" · child of ", h("a", { href: `#/runs/${part(run.parent)}` }, run.parent)]),
      h("div", { class: "title" }, title, h("div", { class: "title-side" }, status, wire, h("span", { class: "buttons" }, cancel, resume, repeat, beside, times, prompts))),
      h("p", { class: "by" }, [run.active_agent === run.agent ? run.agent : `${run.agent} → ${run.active_agent}`, run.model, run.strategy].filter(Boolean).join(" · "), ` · started ${ago(run.created_at)}`),
      media(id, (run.media ?? []).map((one) => ({ ...one, mediaType: one.media_type }))), figures, proof),
    h("div", { class: "columns" }, h("div", { class: "left" }, story, line, opinion.panel), time.panel),
    time.bar));
  document.title = `${run.goal.slice(0, 60)} · taofold`;

  let connection = "ended";
  facts(run);

  function connected() {
    // Nothing drives an idle run: its stream is open, and nothing comes.
    const state = connection === "live" && IDLE.includes(run.status) ? "ended" : connection;
    wire.textContent = WIRE[state];
    wire.className = `wire ${state}`;
  }

  function facts(now) {
    run = now;
    status.className = `pill ${now.status}`;
    status.textContent = now.status;
    const idle = IDLE.includes(now.status);
    cancel.hidden = line.hidden = idle || ENDED.includes(now.status);
    connected();
    if (ENDED.includes(now.status)) opinion.show();
    repeat.hidden = !cancel.hidden || Boolean(now.parent);
    resume.hidden = !(idle || ["failed", "cancelled"].includes(now.status)) || Boolean(now.parent);
    const rows = [["steps", count(now.steps)], ["model calls", count(now.model_calls)], ["tool calls", count(now.tool_calls)],
      ["tokens", count(now.tokens)], ["cost", dollars(now.usd)], ["active", duration((now.seconds ?? 0) * 1000)]];
    const grounded = now.metrics?.grounding_score;
    const judge = now.metrics?.grounding_judge ?? "rules";
    if (grounded !== null && grounded !== undefined) rows.push(["grounded", `${grounded} %${judge === "rules" ? "" : ` (${judge})`}`]);
    fill(figures, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  }

  // The whole chain is hashed for it, so it is asked for once, and again when the run ends.
  const proving = turns();
  function prove() {
    const mine = proving();
    get(`/runs/${part(id)}/evidence`).then((one) => {
      if (!mine()) return;
      proof.hidden = one.status === "none";
      proof.className = `proof ${one.status}`;
      // A changed record is above everything that the records show.
      if (one.status === "broken") {
        proof.role = "alert";
        proof.closest(".run").prepend(proof);
      }
      fill(proof, "Evidence: ", h("span", { class: `pill ${one.status}` }, VERDICTS[one.status] ?? one.status), one.status === "broken" ? ": " : " ", one.text,
        one.keys.length > 0 && ` · signed with key ${one.keys.join(", ")}`);
    }, () => mine() && (proof.hidden = true));
  }
  prove();

  // One request at a time: a late reply would show an earlier state.
  let due = 0;
  let took = 0;
  let changed = false;
  let left = false;
  undo.push(() => (left = true));
  function refresh() {
    changed = true;
    if (due) return;
    due = setTimeout(async () => {
      changed = false;
      const begun = performance.now();
      try {
        const [now] = await Promise.all([get(`/runs/${part(id)}`), time.more()]);
        const ended = !ENDED.includes(run.status) && ENDED.includes(now.status);
        facts(now);
        if (ended) prove();
      } catch {
        // the connection's status already shows that the server is unreachable
      }
      took = performance.now() - begun;
      due = 0;
      if (changed && !left) refresh();
    }, Math.min(5000, Math.max(250, 3 * took))); // a long run is slower to load
  }

  // The end of the page is read only after a scroll, because reading it lays out the whole story.
  let atEnd = true;
  let scrolling = 0;
  const scrolled = () => (atEnd = window.innerHeight + window.scrollY > document.body.scrollHeight - 160);
  addEventListener("scroll", scrolled, { passive: true });
  undo.push(() => removeEventListener("scroll", scrolled));

  function keepUp() {
    if (scrolling || !atEnd || run.status !== "running" || story.classList.contains("travelling")) return;
    scrolling = requestAnimationFrame(() => {
      scrolling = 0;
      window.scrollTo(0, document.body.scrollHeight);
    });
  }

  // A waiting run opens at its question, unless the address names a moment or the user scrolls.
  let seeking = run.status === "waiting" && !chosen.has("at");
  let sought = 0;
  const found = () => (seeking = false);
  for (const name of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    addEventListener(name, found, { passive: true });
    undo.push(() => removeEventListener(name, found));
  }
  function seek() {
    clearTimeout(sought);
    sought = setTimeout(() => {
      const question = seeking && story.querySelector(".card:not(.settled)");
      if (!question) return;
      found();
      // Without the focus, because one key would decide an unselected question.
      question.scrollIntoView({ block: "center" });
    }, 120);
  }
  undo.push(() => clearTimeout(sought));

  undo.push(() => clearTimeout(due), follow(id, (event) => {
    told.tell(event);
    if (seeking) seek();
    keepUp();
    if (event.type !== "answer_chunk" && event.type !== "progress") refresh();
  }, (state) => {
    connection = state;
    connected();
    refresh();
  }));

  const goOn = () => tried(async () => {
    const reload = again();
    await post(`/runs/${part(id)}/resume`);
    toast("The run continues.");
    reload();
  });

  const stop = () => tried(async () => {
    await post(`/runs/${part(id)}/cancel`);
    toast("The run stops before its next call.");
    refresh();
  });

  async function steer(event) {
    event.preventDefault();
    const field = event.target.elements.text;
    const text = field.value;
    if (!text.trim()) return;
    await tried(async () => {
      await post(`/runs/${part(id)}/steer`, { text });
      if (field.value === text) field.value = "";
      toast("The agent reads it at its next turn.");
    });
  }

  undo.push(keys({
    "[": () => time.step(-1), "]": () => time.step(1), "{": () => time.step(-10), "}": () => time.step(10),
    c: () => time.compare(), w: () => times.click(), p: () => prompts.click(), f: () => fork(time.at()), Escape: () => time.now(),
  }));
}
