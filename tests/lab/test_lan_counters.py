"""What passed the spokes of a LAN, asked through the lab's API server as in any cluster: command and page."""

import json
import re
import urllib.request
from collections.abc import Callable, Mapping
from http.cookiejar import CookieJar
from typing import Any

import pytest

from tests.lab.agents import without_agent
from tests.lab.driver import Lab, eventually
from tests.lab.test_lan import PODS, all_reach_all, lan, reaches, start
from tests.lab.test_observing import page
from tests.runtime.metrics.probing import samples

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SENDER, RECEIVER = "a", "b"
TRAFFIC = "/lans/default/blue/counters"

Counted = Mapping[str, int]
"""Frames that spokes sent, by spoke."""


@pytest.fixture
def blue(clean: Lab) -> Lab:
    """The lab with a LAN on which pods of all nodes reach each other: each has sent something."""
    clean.apply(lan("blue", 4711, *PODS))
    start(clean)
    eventually(lambda: all_reach_all(clean))
    return clean


@pytest.fixture
def browser(lab: Lab) -> urllib.request.OpenerDirector:
    """A browser that has logged in by a link of the lab."""
    browser = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
    )
    browser.open(lab.run("console").stdout.strip(), timeout=60).close()
    return browser


def by_command(lab: Lab) -> Counted:
    """What the command says of those that can be asked."""
    found: dict[str, Any] = json.loads(lab.lanloom("lan", "counters", "blue", "-o", "json"))
    return {item["spoke"]: item["framesSent"] for item in found["spokes"]}


def text_of(browser: urllib.request.OpenerDirector, lab: Lab) -> str:
    """The text of the part of the LAN's page about traffic, a word for each cell."""
    with browser.open(lab.status()["console"].rstrip("/") + TRAFFIC, timeout=60) as answer:
        return " ".join(re.sub("<[^>]*>", " ", answer.read().decode()).split())


def on_the_page(text: str) -> Counted:
    """What the page says: the frames follow two sizes."""
    rows = re.findall(r"\b([abc]) node\d [\d.]+ \w+ [\d.]+ \w+ (\d+) ", text)
    return {spoke: int(frames) for spoke, frames in rows}


def by_agents(lab: Lab) -> Counted:
    """What the agents say on their nodes."""
    found: dict[str, int] = {}
    for spoke, node in PODS.items():
        for (name, labels), value in samples(page(lab, node, "/metrics")).items():
            if name == "lanloom_agent_lan_spoke_frames_total" and ("direction", "in") in labels:
                assert dict(labels)["spoke"] == spoke
                found[spoke] = int(value)
    return found


def agrees(lab: Lab, read: Callable[[], Counted]) -> bool:
    """Whether all nodes tell in time what their agents count, which does not stop meanwhile."""
    before, found, after = by_agents(lab), read(), by_agents(lab)
    if found.keys() != PODS.keys():
        return False
    assert all(0 < before[spoke] <= found[spoke] <= after[spoke] for spoke in PODS), (before, found, after)
    return True


def test_a_lab_shows_what_passed_spokes(blue: Lab, browser: urllib.request.OpenerDirector) -> None:
    """Command and page have the frames of each spoke as its node's agent counts them, and name one that is away."""
    before = by_agents(blue)
    eventually(lambda: reaches(blue, SENDER, RECEIVER))
    sent = by_agents(blue)
    assert all(sent[spoke] > before[spoke] for spoke in (SENDER, RECEIVER))
    eventually(lambda: agrees(blue, lambda: by_command(blue)))
    eventually(lambda: agrees(blue, lambda: on_the_page(text_of(browser, blue))))
    with without_agent(blue, PODS[RECEIVER]):
        eventually(lambda: f"{PODS[RECEIVER]}: its agent tells nothing" in text_of(browser, blue))
        eventually(lambda: by_command(blue).keys() == PODS.keys() - {RECEIVER})
    eventually(lambda: by_command(blue).keys() == PODS.keys(), timeout=300)
