/** The card of an approval: the action or question, and the buttons that decide. */

import { part, post } from "./api.js";
import { announce, h, toast } from "./dom.js";
import { form } from "./form.js";
import { inexact, parse } from "./exact.js";
import { pretty, visible } from "./format.js";
import { called, folds, lined, readable, scalar, scalarly } from "./json.js";

const TIERS = { 1: "automatic", 2: "asks", 3: "confirmation", 4: "forbidden" };
const SAID = { approve: "approved", deny: "denied", edit: "approved with changes", answer: "answered", done: "recorded as done" };

/** Returns an event of the stream in the form of the approvals list. */
export const asked = (event) => ({
  id: event.actionId,
  run: event.run,
  tool: event.tool,
  args: event.args,
  summary: event.summary,
  tier: event.tier,
  reason: event.reason,
  question: event.question,
  form: event.form,
  digest: event.digest,
  requester: event.requester,
  batch: event.batch,
  expires_at: event.expiresAt,
});

const CUT = / \[… cut: \d+ more characters, digest [0-9a-f]+\]$/;
const DEAD = 1000;
const LOOK = 100;
const NEAR = 8;
const living = new Set();

// After a scroll other controls are under a resting pointer; they are enabled when it moves. Compared is
// the offset at the last movement, because the scroll event may come after the next movement.
const offset = () => `${scrollX} ${scrollY}`;
let pointer = { x: 0, y: 0, offset: offset() };
let scrolled = -DEAD;
const rests = () => performance.now() - scrolled < DEAD && pointer.offset !== offset();
addEventListener("scroll", () => { scrolled = performance.now(); }, true);
for (const kind of ["pointermove", "pointerdown"]) {
  addEventListener(kind, ({ clientX: x, clientY: y }) => {
    if (Math.hypot(x - pointer.x, y - pointer.y) < NEAR) return;
    pointer = { x, y, offset: offset() };
    if (performance.now() - scrolled < DEAD) for (const one of living) one.look();
  }, true);
}

/** Returns the place and size of `node` and its controls, and whether a dialog covers them. */
function where(node) {
  return [node, ...node.querySelectorAll("button[data-do]")].map((one) => {
    const { left, top, width, height } = one.getBoundingClientRect();
    return [left + scrollX, top + scrollY, width, height].map(Math.round).join(" ");
  }).join() + (document.querySelector("dialog[open]") ? " covered" : "");
}

/**
 * A card is disabled for a second after it or one of its controls appeared, moved, changed its size or was uncovered: a
 * click or a key for the earlier content must not decide.
 */
class Liveness {
  constructor(node, changed, always = false) {
    this.always = always;
    this.node = node;
    this.changed = changed;
    this.place = "";
    this.since = performance.now();
    this.alive = false;
    living.add(this);
  }

  /** Restarts the delay, because there is new content to read. */
  renew() {
    this.place = "";
    this.alive = false;
  }

  /** Checks the place of the card. Returns whether it may decide. */
  look() {
    const now = performance.now();
    const place = this.node.isConnected && !document.hidden ? where(this.node) : "";
    if (place !== this.place) {
      this.place = place;
      this.since = now;
    }
    const alive = place !== "" && now - this.since >= DEAD && !rests();
    if (alive !== this.alive) {
      this.alive = alive;
      this.changed();
    }
    return alive;
  }
}

setInterval(() => {
  for (const one of living) {
    if (one.place && !one.node.isConnected) living.delete(one);
    one.look();
    if (one.always) one.changed();
  }
}, LOOK);

/** By card: a function that returns whether its whole content may be approved. */
const ready = new WeakMap();

/** Makes the card of one approval. `more` goes under its title. */
export function card(one, more = null) {
  const asksUser = one.tool === "ask_user";
  const inside = Boolean(one.form); // a tool asks during its call
  const filled = inside && Object.keys(one.form).length ? form(one.form) : null;
  const doubt = one.question && !asksUser && !inside;
  const own = one.summary && !one.summary.startsWith(`${one.tool}(`); // otherwise it repeats the parameters
  const telling = visible(one.question || (own ? one.summary : ""));
  // A preview that the server cut cannot be read, so it cannot be approved.
  const short = own && CUT.test(one.summary);
  const state = h("p", { class: "decided", role: "status" });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const reason = h("input", { type: "text", name: "reason", maxlength: 500, autocomplete: "off" });
  const text = asksUser
    ? h("textarea", { rows: 2, name: "answer", required: true })
    : h("textarea", { rows: 6, class: "mono", name: "parameters", spellcheck: "false" }, pretty(one.args));
  const buttons = h("div", { class: "buttons" });
  const node = h("article", { class: `card tier${one.tier}`, tabindex: 0, "data-action": one.id, "aria-label": `Decide: ${visible(one.summary || one.tool)}` });
  const folded = h("p", { class: "folded", role: "status" });
  let busy = false;
  let over = false;
  const life = new Liveness(node, refresh);

  /** Returns whether all content for `decision` is visible. An edit always is. */
  const whole = (decision) => !folds(node).length && !(short && ["approve", "done"].includes(decision));

  /** Enables the buttons: an approval needs the whole content, and all decisions an enabled card. */
  function refresh() {
    const hidden = folds(node).length;
    folded.hidden = !(hidden || short) || over;
    folded.replaceChildren(...(hidden ? [`${hidden} part${hidden === 1 ? " is" : "s are"} folded: unfold everything before you approve. `, unfold] : []),
      short ? `The action is too long to show. Approve it with \`taofold approvals approve ${one.id}\`.` : "");
    for (const button of node.querySelectorAll("button[data-do]")) {
      button.disabled = busy || over || !life.alive || (button.dataset.do !== "deny" && !whole(button.dataset.do));
    }
  }
  const unfold = h("button", { type: "button", class: "quiet", "data-unfold": "", onclick: () => {
    // An opened fold may contain folds.
    for (let left = 20; left && folds(node).length; left -= 1) {
      for (const one of folds(node)) {
        one.open = true;
        one.dispatchEvent(new Event("toggle"));
      }
    }
  } }, "Unfold all");
  let due = false;
  node.addEventListener("seen", () => {
    life.renew();
    if (due) return;
    due = true;
    // Once for all folds that one click opens.
    queueMicrotask(() => {
      due = false;
      refresh();
    });
  });
  // A held key presses a button repeatedly.
  node.addEventListener("keydown", (event) => event.repeat && event.target.closest("button") && event.preventDefault());

  async function decide(decision, body = {}) {
    // Checked again: the card may have moved since.
    if (busy || over || !life.look() || (decision !== "deny" && !whole(decision))) return;
    wrong.textContent = "";
    busy = true;
    refresh();
    const said = reason.value.trim();
    try {
      await post(`/approvals/${part(one.id)}`, {
        decision, digest: one.digest, ...(said ? { reason: said } : {}), ...body,
      });
      state.textContent = `You ${filled && decision === "edit" ? "answered" : SAID[decision]} this. The run continues.`;
      node.classList.add("settled");
      over = true;
      announce(`${one.tool} ${SAID[decision]}`);
      document.dispatchEvent(new CustomEvent("decided", { detail: one.id }));
    } catch (error) {
      wrong.textContent = error.message;
      over = [404, 409, 410].includes(error.status);
      if (over) document.dispatchEvent(new CustomEvent("decided", { detail: one.id }));
      toast(error.message, "bad");
    }
    busy = false;
    refresh();
  }

  function edited() {
    let parameters;
    try {
      parameters = parse(text.value, true);
    } catch (error) {
      wrong.textContent = `This is not JSON: ${error.message}`;
      text.focus();
      return;
    }
    const lost = inexact(parameters);
    if (lost) {
      wrong.textContent = `${lost} is an integer that a browser cannot send exactly: use \`taofold approvals approve ${one.id} --parameters JSON\`.`;
      text.focus();
      return;
    }
    decide("edit", { parameters });
  }

  function answered() {
    if (filled) {
      const parameters = filled.read();
      if (parameters) decide("edit", { parameters });
      else wrong.textContent = "Fill in the missing fields.";
      return;
    }
    if (!text.value.trim()) {
      wrong.textContent = "Write an answer first.";
      text.focus();
      return;
    }
    decide("answer", { answer: text.value });
  }

  const press = (name, kind, action, label) =>
    h("button", { type: "button", class: kind, "data-do": name, onclick: action, "aria-label": label && `${label}: ${visible(one.summary || one.tool)}` }, label || name);
  const editor = h("details", { class: "edit" }, h("summary", {}, "Change, or give a reason"),
    !doubt && h("label", {}, "Parameters", text),
    !doubt && press("edit", "", edited, "Approve changed"),
    h("label", {}, "Reason", reason));

  if (inside && !filled) buttons.append(press("approve", "primary", () => decide("approve"), "Yes"), press("deny", "", () => decide("deny"), "No"));
  else if (asksUser || inside) buttons.append(press("answer", "primary", answered, "Answer"), press("deny", "", () => decide("deny"), "Decline"));
  else if (doubt) {
    buttons.append(press("done", "primary", () => decide("done"), "It happened"),
      press("approve", "", () => decide("approve"), "Run it again"),
      press("deny", "", () => decide("deny"), "Skip"));
  } else buttons.append(press("approve", "primary", () => decide("approve"), "Approve"), press("deny", "", () => decide("deny"), "Deny"));

  node.append(...[
    h("header", {}, h("span", { class: "tier" }, asksUser || inside ? "question" : `tier ${one.tier} · ${TIERS[one.tier] ?? ""}`),
      h("h3", { class: "mono" }, visible(one.tool)), until(one.expires_at)),
    more ?? "",
    telling && h("div", { class: one.question ? "summary" : "summary mono" }, lines(telling)),
    asksUser ? h("label", { class: "answering" }, "Your answer", text) : filled ? filled.node : parameters(one.args, true),
    folded, buttons, asksUser || inside ? "" : editor, wrong, state,
  ].filter(Boolean));
  ready.set(node, () => life.look() && !busy && whole("approve"));
  refresh();
  return node;
}

/** Makes a card with one decision for all questions of a step; `cards` returns the open ones. */
export function together(cards) {
  const wrong = h("p", { class: "wrong", role: "alert" });
  const words = h("p", {});
  const buttons = ["approve", "deny"].map((decision) => h("button", { type: "button", "data-do": `${decision}-all`, onclick: () => decide(decision) }, decision === "approve" ? "Approve all" : "Deny all"));
  const node = h("div", { class: "together", role: "group", "aria-label": "All questions of this step" }, words, h("div", { class: "buttons" }, buttons), wrong);

  // As for each card: visible for a second, without folds.
  const nodes = () => cards().map((one) => document.querySelector(`.card[data-action="${CSS.escape(one.id)}"]`));
  const allowed = (decision) => life.look() && nodes().every((one) => one && (decision === "deny" ? true : ready.get(one)?.()));
  let busy = false;
  const refresh = () => {
    for (const button of buttons) button.disabled = busy || !allowed(button.dataset.do.replace("-all", ""));
  };
  const life = new Liveness(node, refresh, true); // it depends on the cards, too

  async function decide(decision) {
    if (busy || !allowed(decision)) return;
    wrong.textContent = "";
    busy = true;
    refresh();
    const open = cards();
    try {
      const { items } = await post("/approvals", { decisions: open.map((one) => ({ id: one.id, digest: one.digest, decision })) });
      const refused = items.filter((one) => !one.taken);
      wrong.textContent = refused.map((one) => one.detail).join("; ");
      announce(`${items.length - refused.length} ${SAID[decision]}`);
      document.dispatchEvent(new CustomEvent("decided", { detail: open[0]?.id }));
    } catch (error) {
      wrong.textContent = error.message;
    }
    busy = false;
    refresh();
  }

  const update = () => {
    refresh();
    const open = cards().length;
    node.hidden = open < 2;
    words.textContent = `This step has ${open} open questions. Calls after a waiting call start when it is decided.`;
  };
  update();
  return { node, update };
}

/** Shows text of a foreign server or a tool apart from text of this server. */
function lines(text) {
  const said = (line) => (line.startsWith("│") ? h("q", {}, lined(line.replace(/^│ ?/, ""))) : lined(line));
  return text.split("\n").map(said);
}

/** Returns whether approve and deny are enough to decide. */
export const plain = (one) => !one.question && !one.form && one.tool !== "ask_user";

/** Returns parameters as a list of names and values. */
export function parameters(args, open = false) {
  const rows = Object.entries(args ?? {});
  if (!rows.length) return "";
  return h("dl", { class: "parameters" }, rows.map(([name, value]) => [h("dt", {}, called(name)), h("dd", { class: "mono" }, scalarly(value) ? scalar(value, true) : readable(value, open))]));
}

function until(expires) {
  if (!expires) return "";
  const node = h("time", { class: "until", datetime: expires });
  const end = new Date(expires).getTime();
  const tick = () => {
    const left = Math.ceil((end - Date.now()) / 1000);
    node.textContent = left > 0 ? `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")} left` : "expired";
    if (left <= 0 || (seen && !node.isConnected)) clearInterval(timer);
    seen = node.isConnected;
  };
  let seen = false;
  const timer = setInterval(tick, 1000);
  tick();
  return node;
}
