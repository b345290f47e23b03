"""The console before a large cluster: 500 nodes with 20 networks each, and 1,000 pools.

Its objects are values in memory, so that nothing but the console is measured. A page may cost a second of processor
time, of the console and of the browser together; a stream in a churn may send 50 KB a second; 10,000 objects fit into
120 MB.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, TypeVar

from bench.report import Row
from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS
from lanloom.api.meta import Object
from lanloom.api.multus import NADS
from lanloom.api.reading import convert
from lanloom.api.resource import Resource
from lanloom.console import html
from lanloom.console.catalogue import Catalogue, asked_of
from lanloom.console.live import changes_of, parts_of
from lanloom.console.menu import pages
from lanloom.features import FEATURES
from lanloom.features.vlan.rules.cluster import matched_annotation
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Listing, Reader
from tests.features.vlan.cluster import cluster_network, nad, node, vlan_config

T = TypeVar("T", bound=Object)
Raw = dict[str, Any]

COUNT, WIDTH, POOLS = 500, 20, 1000
CHURN_SECONDS = 5
PATHS = ("/", "/networks", "/networks/net/net-00", "/nodes/node-000", "/pools")


class Big(Reader):
    """The cluster, as lists in memory."""

    def __init__(self) -> None:
        hosts = [f"node-{number:03}" for number in range(COUNT)]
        networks = [f"cn-{number}" for number in range(WIDTH)]
        self._items: dict[Resource[Any], tuple[Any, ...]] = {
            NODES: _all(NODES, (node(name, ready=True) for name in hosts)),
            CLUSTER_NETWORKS: _all(CLUSTER_NETWORKS, map(cluster_network, networks)),
            VLAN_CONFIGS: _all(VLAN_CONFIGS, (_config(name, hosts) for name in networks)),
            NADS: _all(
                NADS, (nad(f"net-{n:02}", name, 100 + n, namespace="net") for n, name in enumerate(networks))
            ),
            CLUSTER_NETWORK_NODES: _all(
                CLUSTER_NETWORK_NODES, (report(host, name) for host in hosts for name in networks)
            ),
            NETWORKS: _all(NETWORKS, map(_pool, range(POOLS))),
        }

    def change(self, number: int) -> None:
        """Another node loses its carrier, or has it again."""
        items = list(self._items[CLUSTER_NETWORK_NODES])
        at = (number * 37) % len(items)
        found = items[at].status
        bad = number % 2 == 0
        items[at] = convert(report(found.node, found.cluster_network, bad=bad), CLUSTER_NETWORK_NODES.type)
        self._items[CLUSTER_NETWORK_NODES] = tuple(items)

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """As the port says."""
        for item in self._items.get(resource, ()):
            if item.metadata.name == name:
                return item  # type: ignore[no-any-return]
        raise NotFound(404, "NotFound", name)

    async def list(
        self, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listing[T]:
        """As the port says; nothing has what selectors choose."""
        return Listing(() if labels or fields else self._items.get(resource, ()), "1")


def _all(resource: Resource[T], bodies: Any) -> tuple[T, ...]:
    return tuple(convert(body, resource.type) for body in bodies)


def _config(name: str, hosts: list[str]) -> Raw:
    body = vlan_config(f"{name}-all", name)
    body["metadata"]["annotations"] = {names.MATCHED_NODES: matched_annotation(hosts)}
    return body


def report(host: str, network: str, *, bad: bool = False) -> Raw:
    """The report of a node about a cluster network."""
    number = int(network.rpartition("-")[2])
    ready = {"type": "ready", "status": str(not bad), "reason": "NoCarrier" if bad else "Ready"}
    status = {
        "node": host,
        "clusterNetwork": network,
        "vlanConfig": f"{network}-all",
        "bridge": f"{network}-br",
        "uplink": f"{network}-bo",
        "mtu": 1500,
        "vlanIds": f"1,{100 + number}",
        "conditions": [ready | {"message": "eth1 has no carrier" if bad else "", "lastTransitionTime": ""}],
    }
    return {"metadata": {"name": f"{network}-{host}"}, "status": status}


def _pool(number: int) -> Raw:
    cidr = f"10.{number // 250}.{number % 250}.0/24"
    first = cidr.replace("0/24", "10")
    spec = {"subnets": [{"cidr": cidr, "pools": [{"range": f"{first}-{cidr.replace('0/24', '200')}"}]}]}
    return {"metadata": {"name": f"pool-{number:04}"}, "spec": spec}


def rows() -> Iterator[Row]:
    """Take all of them."""
    cluster: Any = Big()
    catalogue = Catalogue(pages(FEATURES), time.time)
    for path in PATHS:
        began = time.process_time()
        title, made = asyncio.run(catalogue.make(cluster, asked_of(path)))
        cost = time.process_time() - began
        cost += _browser_seconds(html.document(title, catalogue.menu, path, html.raw(made), live=False))
        yield Row(
            name=f"console: {path}, made and painted",
            measured=cost,
            limit=1.0,
            unit="s CPU",
            note=f"{len(made) / 1000:.0f} KB; console and browser together",
        )
    yield _churn(cluster, catalogue)
    used = int(subprocess.run([sys.executable, "-c", HOLD], capture_output=True, check=True).stdout)
    yield Row(name="console: process that holds 11,500 objects", measured=used / 1024, limit=120, unit="MB")


def _churn(cluster: Any, catalogue: Catalogue) -> Row:
    """What a stream of the matrix sends while 20 reports change in each second."""

    async def sent() -> float:
        asked = asked_of("/networks")
        last, total = parts_of((await catalogue.make(cluster, asked))[1]), 0
        for second in range(CHURN_SECONDS):
            for number in range(20):
                cluster.change(20 * second + number)
            now = parts_of((await catalogue.make(cluster, asked))[1])
            total += len(json.dumps(changes_of(last, now)))
            last = now
        return total / CHURN_SECONDS / 1000

    return Row(
        name="console: a stream while 20 of 10,000 reports change each second",
        measured=asyncio.run(sent()),
        limit=50,
        unit="KB/s",
        note="one page a second, as it takes to make one",
    )


def _browser_seconds(text: str) -> float:
    """The processor time of a browser's tab that shows a page, with its style."""
    from playwright.sync_api import sync_playwright

    style = (files("lanloom.console") / "static/console.css").read_text()
    text = text.replace("</head>", f"<style>{style}</style></head>")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = _task_seconds(session)
        page.set_content(text)
        page.screenshot()
        spent = _task_seconds(session) - before
        browser.close()
    return spent


def _task_seconds(session: Any) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(item["value"] for item in metrics if item["name"] == "TaskDuration"))


HOLD = """
import asyncio, resource, time
import uvicorn
from bench.console import Big
from lanloom.console.app import Console
from lanloom.console.catalogue import Catalogue, asked_of
from lanloom.console.menu import pages
from lanloom.features import FEATURES
cluster = Big()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
"""A process with the console's modules that holds the cluster's objects; it prints its peak in KiB."""
