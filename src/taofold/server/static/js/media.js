/** Images, documents and sound: shown if the browser can, else a link. */

import { part, send } from "./api.js";
import { h } from "./dom.js";

const SHOWN = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** Returns the media of `run`, or null. Foreign addresses are never opened. */
export function media(run, items = []) {
  if (!items.length) return null;
  return h("ul", { class: "media", "aria-label": "Files" }, items.map((one) => h("li", {}, shown(run, one))));
}

/** Returns the goal without the lines that stand for its media. */
export function words(goal, items = []) {
  const lines = goal.split("\n").filter((line) => !items.some((one) => one.digest && line.startsWith(`[${one.kind} `) && line.endsWith(` ${one.digest.slice(0, 8)}]`)));
  return lines.join("\n") || goal;
}

function shown(run, one) {
  const words = [one.name || one.kind, one.mediaType, size(one.size)].filter(Boolean).join(" · ");
  if (!one.digest) return h("span", { class: "file" }, `${words} · ${one.url}`);
  const at = `/runs/${part(run)}/media/${part(one.digest)}`;
  const type = SHOWN.includes(one.mediaType) ? one.mediaType : "application/octet-stream";
  if (type === one.mediaType) {
    const image = h("img", { alt: one.name || words });
    const link = h("a", { target: "_blank", rel: "noopener", title: words }, image);
    whenSeen(image, async () => (image.src = link.href = await local(at, type)));
    return link;
  }
  return h("button", { type: "button", class: "file", onclick: async () => {
    const link = h("a", { href: await local(at, type), download: one.name || "file" });
    link.click();
  } }, words);
}

/** Returns an address of this page for a resource that needs the session's secret. */
async function local(at, type) {
  const answer = await send(at);
  if (!answer.ok) throw new Error(`${at}: ${answer.status}`);
  // A type that is never executed as a page.
  return URL.createObjectURL(new Blob([await answer.arrayBuffer()], { type }));
}

function whenSeen(node, load) {
  const watcher = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watcher.disconnect();
    load().catch(() => node.replaceWith(node.alt));
  }, { rootMargin: "200px" });
  watcher.observe(node);
}

function size(bytes) {
  if (!bytes) return "";
  return bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1000))} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Returns a file in the form of the API. */
export async function attached(file) {
  const url = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
  return { name: file.name, data: url.slice(url.indexOf(",") + 1) };
}
