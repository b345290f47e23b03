// The stream of all tabs. A tab says every half a minute which page it shows; one that is silent for long is gone.
"use strict";

importScripts("/static/live.js");

const SILENCE = 5 * 60 * 1000;
const tabs = new Map();
const choose = stream((page, message) => {
  for (const [port, tab] of tabs) if (page === null || page === tab.page) port.postMessage(message);
});

function forget() {
  const now = Date.now();
  for (const [port, tab] of tabs) if (now - tab.heard > SILENCE) tabs.delete(port);
  choose([...tabs.values()].map((tab) => tab.page));
}

onconnect = (event) => {
  const [port] = event.ports;
  port.onmessage = ({ data }) => {
    if (data === null) tabs.delete(port);
    else tabs.set(port, { page: data, heard: Date.now() });
    forget();
  };
};

setInterval(forget, SILENCE / 2);
