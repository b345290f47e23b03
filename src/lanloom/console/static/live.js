// One stream for all pages of a browser: it opens but six connections to one host. Runs in a shared worker, and in the page
// itself where there are none. `tell(page, message)` passes a message on; a page of null is for all of them.
"use strict";

function stream(tell) {
  let source = null, pages = "", timer = 0;

  function open() {
    source?.close();
    source = null;
    if (!pages) return;
    source = new EventSource(`/live?${pages}`);
    for (const kind of ["page", "patch", "away"]) {
      source.addEventListener(kind, (event) => {
        const { page, data } = JSON.parse(event.data);
        tell(page, { kind, data });
      });
    }
    source.onopen = () => tell(null, { kind: "open" });
    source.onerror = () => lost(source);
  }

  async function lost(which) {
    tell(null, { kind: "lost" });
    if (which.readyState !== EventSource.CLOSED) return;
    const answer = await fetch("/live", { method: "HEAD" }).catch(() => null);
    if (answer?.status === 401) tell(null, { kind: "out" });
    else if (which === source) wait(5000);
  }

  function wait(milliseconds) {
    clearTimeout(timer);
    timer = setTimeout(open, milliseconds);
  }

  return (wanted) => {
    const query = new URLSearchParams([...new Set(wanted)].sort().map((page) => ["page", page])).toString();
    if (query === pages && source) return;
    pages = query;
    wait(50);
  };
}
