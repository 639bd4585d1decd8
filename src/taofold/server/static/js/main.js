/** The start of the console: sign-in, choice of the view, and global keys. */

import { me, signedIn, signIn, signOut } from "./api.js";
import { budgetsView } from "./budgets.js";
import { sessionsView, sessionView } from "./chat.js";
import { compareView } from "./compare.js";
import { fill, h, toast } from "./dom.js";
import { evalsView, evalView } from "./evals.js";
import { keys, SHORTCUTS, walk } from "./keys.js";
import { learningView } from "./learning.js";
import { loopsView, loopView } from "./loops.js";
import { memoryView } from "./memory.js";
import { patternsView, patternView } from "./patterns.js";
import { visible } from "./format.js";
import { place } from "./place.js";
import { policyView } from "./policy.js";
import { runView } from "./run.js";
import { runsView } from "./runs.js";
import { returned, serversView, watchServers } from "./servers.js";
import { startRun } from "./start.js";
import { promptsView } from "./prompts.js";
import { timesView } from "./times.js";
import { approvalsView, press, watchApprovals } from "./tray.js";

const LISTS = { __proto__: null, runs: runsView, approvals: approvalsView, sessions: sessionsView, evals: evalsView, loops: loopsView, patterns: patternsView, learning: learningView, memory: memoryView, budgets: budgetsView, policy: policyView, servers: serversView };
const ONES = { __proto__: null, runs: runView, sessions: sessionView, evals: evalView, compare: compareView, times: timesView, prompts: promptsView, loops: loopView, patterns: patternView };

const main = document.getElementById("main");
let leave = null;

function route() {
  const { section, one, other } = place();
  const name = section in LISTS || (section in ONES && one) ? section : "runs";
  leave?.();
  for (const link of document.querySelectorAll("[data-section]")) {
    if (link.dataset.section === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  window.scrollTo(0, 0);
  leave = one && name === section && ONES[name] ? ONES[name](main, one, other) : LISTS[name](main);
}

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("taofold.theme", root.dataset.theme);
}

function help() {
  if (document.querySelector("dialog[open]")) return;
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "shortcuts" }, h("h2", { id: "shortcuts" }, "Keyboard"),
    h("dl", { class: "shortcuts" }, SHORTCUTS.map(([key, what]) => [h("dt", {}, key), h("dd", {}, what)])),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function signedOut(why = "") {
  leave?.();
  leave = null;
  shownAs(null);
  document.title = "Sign in · taofold";
  const token = h("input", { type: "password", id: "token", autocomplete: "current-password", required: true });
  const wrong = h("p", { class: "wrong", role: "alert" }, why);
  fill(main, h("section", { class: "signin" }, h("h1", {}, "Sign in"),
    h("p", {}, "Open the one-time address that `taofold serve` printed when it started. If you have a token, enter it here."),
    h("form", {
      onsubmit: async (event) => {
        event.preventDefault();
        try {
          await signIn({ token: token.value });
          begin();
        } catch (error) {
          wrong.textContent = error.message;
        }
      },
    }, h("label", { class: "unseen", for: "token" }, "Token"), token, h("button", { class: "primary" }, "Sign in")), wrong));
}

/** Shows the signed-in principal on every page. */
function shownAs(one) {
  const who = document.getElementById("who");
  who.textContent = one ? visible(one.id) : "";
  who.title = one ? `Signed in as ${visible(one.id)} (${visible(one.roles.join(", ") || "no role")})` : "";
  for (const node of document.querySelectorAll(".signed-in")) node.hidden = !one;
}

/** Signs in by the printed link, whose code works once. */
async function byLink() {
  const code = /^\/signin\/([\w-]+)$/.exec(location.pathname)?.[1];
  if (!code) return "";
  // Removed at once, because a reload must not send it again.
  history.replaceState(null, "", `/${location.hash}`);
  try {
    await signIn({ code });
  } catch (error) {
    return error.message;
  }
  return "";
}

let begun = false;
async function begin() {
  const why = await byLink();
  if (!signedIn()) return signedOut(why);
  if (why) toast(why, "bad");
  try {
    shownAs(await me());
  } catch (error) {
    if (error.status === 401 || error.status === 403) return signedOut();
    toast(error.message, "bad");
  }
  await returned();
  route();
  if (begun) return undefined;
  begun = true;
  watchApprovals();
  watchServers();
  addEventListener("hashchange", route);
  return undefined;
}

const go = (where) => () => (location.hash = `#/${where}`);
keys({
  "g r": go("runs"), "g a": go("approvals"), "g s": go("sessions"), "g e": go("evals"), "g l": go("loops"), "g p": go("patterns"), "g m": go("learning"), "g n": go("memory"), "g b": go("budgets"), "g o": go("policy"),
  n: () => void startRun(), t: theme, "?": help,
  j: () => walk(".entry, .step, .card", 1), k: () => walk(".entry, .step, .card", -1),
  a: () => press("approve"), d: () => press("deny"),
});
document.getElementById("new-run").addEventListener("click", () => startRun());
document.getElementById("theme").addEventListener("click", theme);
document.getElementById("help").addEventListener("click", help);
document.addEventListener("signedout", () => signedOut("Your session has ended. Sign in again."));
document.getElementById("sign-out").addEventListener("click", async () => {
  await signOut().catch((error) => toast(error.message, "bad"));
  location.replace("/");
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
begin();
