// Follow the page: the server sends it anew when something changes, and says when what is shown may be old.
"use strict";

const main = document.getElementById("main");
const away = document.getElementById("away");

function tell(why) {
  const at = document.getElementById("at");
  away.textContent = why ? `What you see is of ${at ? at.textContent : "before"} UTC: ${why}` : "";
  away.hidden = !why;
}

// Keep what the reader is typing, and where the focus is: the same element of the new page has it again.
function place(element) {
  const all = [...main.querySelectorAll("a, button, input, [tabindex]")];
  return { index: all.indexOf(element), value: element.value, start: element.selectionStart };
}

function show(html) {
  const active = document.activeElement;
  const held = main.contains(active) && active !== main ? place(active) : null;
  main.innerHTML = html;
  if (!held || held.index < 0) return;
  const again = main.querySelectorAll("a, button, input, [tabindex]")[held.index];
  if (!again) return;
  again.focus({ preventScroll: true });
  if (held.value !== undefined && again.tagName === "INPUT") {
    again.value = held.value;
    if (held.start !== null) again.setSelectionRange(held.start, held.start);
  }
}

function follow() {
  const query = new URLSearchParams(location.search);
  query.set("path", location.pathname);
  const source = new EventSource(`/live?${query}`);
  source.addEventListener("page", (event) => show(event.data));
  source.addEventListener("away", (event) => tell(event.data));
  source.onopen = () => tell("");
  source.onerror = () => {
    tell("the console does not answer");
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 5000);
  };
  addEventListener("pagehide", () => source.close(), { once: true });
}

follow();
