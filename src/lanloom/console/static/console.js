// Follow the page: the server sends what changes of it, and says when what is shown may be old.
"use strict";

const main = document.getElementById("main");
const away = document.getElementById("away");
const page = location.pathname + location.search;
let parts = [];
let lost = 0, reason = "";

// Say from when the page is, and how old that is, as long as nothing new comes.
function tell(why) {
  lost = why ? lost || Date.now() : 0;
  reason = why;
  away.hidden = !why;
  const minutes = Math.floor((Date.now() - lost) / 60000);
  const age = minutes ? `, ${minutes} min ago` : "";
  away.textContent = why ? `What you see is of ${new Date(lost).toISOString().slice(11, 19)} UTC${age}: ${why}` : "";
}

// Make one element like another, and touch only what differs: focus, what is typed, and where one has scrolled to stay.
function morph(old, fresh) {
  if (old.isEqualNode(fresh) || (old.dataset?.part && old.dataset.part === fresh.dataset?.part)) return;
  if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  morphChildren(old, [...fresh.childNodes]);
}

function morphChildren(old, fresh) {
  while (old.childNodes.length > fresh.length) old.lastChild.remove();
  fresh.forEach((child, number) => {
    const there = old.childNodes[number];
    if (there) morph(there, child);
    else old.append(child);
  });
}

function show(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  morphChildren(main, [...document.importNode(template.content, true).childNodes]);
  document.querySelectorAll("[data-part]:not([aria-busy])").forEach(fill);
}

// Put in a part of the page that takes longer, from the page that has it alone.
async function fill(part) {
  const address = part.dataset.part;
  part.setAttribute("aria-busy", "true");
  const answer = await fetch(address).catch(() => null);
  if (part.dataset.part !== address) return;
  part.setAttribute("aria-busy", "false");
  if (!answer?.ok || answer.redirected) return;
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = found.querySelectorAll("main > section > :not(h2), main > .remark");
  morphChildren(part, [part.firstElementChild.cloneNode(true), ...fresh]);
}

function fillAll() {
  if (!document.hidden) document.querySelectorAll("[data-part]").forEach(fill);
}

function hear({ kind, data }) {
  if (kind === "away") tell(data);
  else if (kind === "open") tell("");
  else if (kind === "lost") tell("the console does not answer");
  else if (kind === "out") location.assign("/login");
  else {
    if (kind === "page") parts = data;
    else {
      const old = [...parts];
      const piece = (item) => (typeof item === "string" ? item : old.slice(item[0], item[0] + item[1]));
      for (const [at, removed, added] of data) parts.splice(at, removed, ...added.flatMap(piece));
    }
    show(parts.join(""));
  }
}

function direct() {
  const choose = stream((_page, message) => hear(message));
  return (wanted) => choose(wanted === null ? [] : [wanted]);
}

function shared() {
  const { port } = new SharedWorker("/static/worker.js", "lanloom");
  port.onmessage = ({ data }) => hear(data);
  return (wanted) => port.postMessage(wanted);
}

fillAll();
setInterval(fillAll, 10 * 1000);
const follow = "SharedWorker" in window ? shared() : direct();
follow(page);
setInterval(() => follow(page), 30 * 1000);
setInterval(() => reason && tell(reason), 20 * 1000);
addEventListener("pagehide", () => follow(null));
addEventListener("pageshow", (event) => event.persisted && follow(page));
