"""Pages of one thing: who has an address and since when, who uses a network, and what keeps it from being deleted."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import NODES
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, FINALIZER
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.console.catalogue import Catalogue, asked_of, pages
from lanloom.features import FEATURES
from lanloom.kube.http import HttpClient
from lanloom.kube.ports import Client, Listing, Watcher
from tests.console.browser.tabs import PATHS
from tests.console.filled import Filler
from tests.console.site import TENANT, Site, read, read_until, site
from tests.features.liveupdate import objects

T = TypeVar("T", bound=Object)

pytestmark = pytest.mark.slow


@pytest.fixture
async def filled(tmp_path: Path) -> AsyncIterator[Site]:
    """A cluster with a bit of everything, and an isolated network that is being deleted while a machine uses it."""
    async with site(tmp_path, shared=True) as made:
        await Filler(made.admin).fill()
        await _leave(made.admin)
        yield made


async def _leave(admin: Client) -> None:
    """Makes `leaving` wait for a machine of the other namespace, too."""
    user = objects.machine(objects.on({"net": "ours/leaving"}), "far", namespace="theirs")
    await admin.create(VIRTUAL_MACHINES, user, "theirs")
    kept = {"metadata": {"finalizers": [FINALIZER, "example.com/x"]}}
    await admin.patch(DUMMY_CLUSTER_NETWORKS, "leaving", kept)


async def test_who_has_an_address_and_since_when(filled: Site) -> None:
    """The page of a pool names the owner of each address and since when; it is found by address, MAC and owner."""
    await filled.admin.patch(NICS, "web-07", {"spec": {"mac": "aa:00:00:12:34:56"}}, "ours")
    made = (await filled.admin.get(NICS, "web-07", "ours")).metadata.creation_timestamp or ""
    since = made.replace("T", " ").replace("Z", " UTC")
    async with filled.browser() as browser:
        page = await read(browser, "/pools/office")
        assert f'title="10.0.4.23: used, Instance ours/web-07, NIC 0, since {since}"' in page
        assert "10.0.4.40: reserved, externally reserved" in page and "10.0.4.99: free" in page
        for words in ("10.0.4.23", "AA:00:00:12:34:56", "web-07"):
            for path in ("/pools", "/pools/office"):
                page = await read_until(browser, f"{path}?q={words}&show=all", "aa:00:00:12:34:56")
                assert (
                    "10.0.4.23" in page
                    and since in page
                    and "web-08</a>" not in page
                    and ">web-08<" not in page
                )
        assert "web-07" not in await read(browser, "/pools")


async def test_what_a_network_keeps(filled: Site) -> None:
    """A network lists addresses that no NIC gets: its administrator's, its own, others', and for a name until when."""
    held = (await filled.admin.get(NICS, "queue-0", "ours")).metadata.creation_timestamp or ""
    async with filled.browser() as browser:
        page = await read(browser, "/pools/office?show=all")
        table = page.partition('aria-label="Reservations"')[2].partition("</table>")[0]
        for row in (
            ("10.0.4.0", "1", "automatic", "address of the subnet itself", "-", "-"),
            ("10.0.4.1", "1", "automatic", "gateway", "-", "-"),
            ("10.0.4.40-10.0.4.47", "8", "external", "administrator", "-", "-"),
            ("10.0.4.100", "1", "in use", "the address of node node1 (Node node1)", "-", "-"),
            ("10.0.4.120", "1", "held", "Pod ours/queue-0", held, "2026-01-01T10:59:00Z"),
            ("10.0.4.255", "1", "automatic", "address of the subnet itself", "-", "-"),
        ):
            assert row in rows(table), (row, rows(table))
        assert rows(page.partition('aria-label="Namespaces"')[2].partition("</table>")[0]) == [
            ("ours", "37", "-")
        ]


def rows(table: str) -> list[tuple[str, ...]]:
    """The texts of a table's rows, times as they are for programs."""
    found = []
    for line in table.partition("<tbody")[2].split("<tr")[1:]:
        cells = [re.sub(r'<time datetime="([^"]*)">[^<]*', r"\1", cell) for cell in line.split("<td")[1:]]
        found.append(tuple(re.sub("<[^>]*>", "", cell.partition(">")[2]) for cell in cells))
    return found


async def test_counts_for_who_may_read_a_part(filled: Site) -> None:
    """A filter of namespaces changes no count; who may not read all NICs gets the manager's counts, and no map."""
    full = {"range": "10.0.8.10-10.0.8.25", "size": "16", "used": "16", "reserved": "0", "free": "0"}
    await filled.admin.patch(NETWORKS, "lab", {"status": {"pools": [full]}}, subresource="status")
    await filled.admin.create(NICS, nic("foreign", "10.0.4.60"), "theirs")
    status = {"network": "office", "ips": ["10.0.4.60"], "address": "10.0.4.60", "epoch": 1}
    await filled.admin.patch(NICS, "foreign", {"status": status}, "theirs", subresource="status")
    async with filled.browser() as browser:
        page = await read_until(browser, "/pools/office?namespace=ours&show=all", "10.0.4.60: used")
        pools = page.partition('aria-label="Pools"')[2].partition("</table>")[0]
        assert rows(pools)[0][2:5] == ("38", "5", "85")
        assert "foreign" not in page.partition('aria-label="Addresses"')[2]
    async with filled.browser(TENANT) as browser:
        await read(browser, "/pools/office?namespace=ours", 403)
    await _show(filled.admin, NETWORKS)
    async with filled.browser(TENANT) as browser:
        page = await read(browser, "/pools?namespace=ours&show=all")
        [lab] = [row for row in rows(page) if row[0] == "lab"]
        assert lab[2:6] == ("16", "0", "0", "100 %") and "that the manager wrote last" in page
        page = await read(browser, "/pools/lab?namespace=ours&show=all")
        assert 'class="pool' not in page and "that the manager wrote last" in page and "job-03" in page
        page = await read(browser, "/pools/office?namespace=ours&show=all")
        assert "foreign" not in page and "10.0.4.60" not in page and 'aria-label="Namespaces"' not in page


def nic(name: str, address: str) -> dict[str, Any]:
    """A NIC of an instance in `office`."""
    owner = {"kind": "Instance", "name": name}
    return {"metadata": {"name": name}, "spec": {"owner": owner, "network": "office", "ips": [address]}}


async def test_nics_of_machines(filled: Site) -> None:
    """A NIC that is not where it is to be has its machine's state, and is well if its machine has stopped."""
    async with filled.browser() as browser:
        page = (await read(browser, "/machines/ours/idle")).partition("<main")[2]
        assert "Stopped" in page and "Next start" in page and "Waiting" not in page and "◆" not in page
        page = (await read(browser, "/machines/ours/db")).partition('aria-label="NICs"')[2]
        assert "◐ Swapping" in page and "Waiting" not in page
        page = await read(browser, "/machines?q=mail")
        assert '<time datetime="2026-01-01T10:12:00Z">' in page


async def test_ipv6_as_ranges(filled: Site) -> None:
    """A pool of IPv6 is drawn and listed as ranges, with counts that a person can read."""
    async with filled.browser() as browser:
        page = await read(browser, "/pools/dual")
        assert 'class="strip"' in page and "Ranges of fd00:4::100-fd00:4::1ff" in page
        assert "fd00:4::101-fd00:4::1ff, 255 addresses: free" in page
        assert "fd00:4::100: used, Instance ours/dual-0" in page


async def test_what_keeps_an_isolated_network(filled: Site) -> None:
    """The page of an isolated network has its users of all namespaces, the drain, and what keeps it with the remedy."""
    async with filled.browser() as browser:
        page = await read_until(browser, "/isolated/leaving", "far")
        for text in ("theirs", "VirtualMachine", "Takes no new users since", "2026-01-01T10:07:00Z"):
            assert text in page, text
        assert "ours/leaving is used" in page and "lanloom vm move" in page
        page = await read(browser, "/isolated/leaving?namespace=theirs")
        assert "ours/leaving" in page and "kept" in page and "Takes no new users since" in page
        assert 'href="/machines/theirs/far"' in page and "would keep it from being deleted" in page
        await filled.admin.delete(DUMMY_CLUSTER_NETWORKS, "leaving")
        page = await read_until(browser, "/isolated/leaving", "What keeps it")
        assert "example.com/x" in page and "Being deleted since" in page and "ours" in page
        await filled.admin.delete(VIRTUAL_MACHINES, "far", "theirs")
        await read_until(browser, "/isolated/leaving", "theirs", there=False)


async def test_who_uses_a_network(filled: Site) -> None:
    """The page of a NAD lists its users of all namespaces; who may see one namespace sees those of that."""
    user = objects.machine(objects.on({"net": "ours/guests"}), "foreign", namespace="theirs")
    await filled.admin.create(VIRTUAL_MACHINES, user, "theirs")
    async with filled.browser() as browser:
        page = await read_until(browser, "/networks/ours/guests", "foreign")
        assert 'href="/machines/ours/idle"' in page and 'href="/machines/theirs/foreign"' in page
    async with filled.browser(TENANT) as browser:
        assert "foreign" not in await read(browser, "/networks/ours/guests", 403)
    await _show(filled.admin, NODES, CLUSTER_NETWORKS, VLAN_CONFIGS, CLUSTER_NETWORK_NODES)
    async with filled.browser(TENANT) as browser:
        page = await read(browser, "/networks/ours/guests")
        assert 'href="/machines/ours/idle"' in page and "foreign" not in page
        assert "Users in namespaces that you may not read are not shown" in page


async def _show(admin: HttpClient, *kinds: Resource[Any]) -> None:
    """Lets the tenant read kinds that are in no namespace."""
    rules = [
        {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": ["list", "watch"]} for kind in kinds
    ]
    path, group = "/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    await admin.request("POST", f"{path}/clusterroles", {"metadata": {"name": "nodes"}, "rules": rules})
    body = {
        "metadata": {"name": "nodes"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "nodes"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "tenant"}],
    }
    await admin.request("POST", f"{path}/clusterrolebindings", body)


class Noted(Watcher):
    """Notes the kinds that a page reads."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self.kinds: set[Resource[Any]] = set()

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """As the port says."""
        self.kinds.add(resource)
        return await self._client.get(resource, name, namespace)

    async def list(self, resource: Resource[T], *words: Any, **options: Any) -> Listing[T]:
        """As the port says."""
        self.kinds.add(resource)
        return await self._client.list(resource, *words, **options)

    def watch(self, *args: Any, **options: Any) -> Any:
        """As the port says."""
        return self._client.watch(*args, **options)

    async def ask_pod(self, namespace: str, pod: str, path: str) -> str:
        """As `PodReader` says."""
        return await self._client.ask_pod(namespace, pod, path)


async def test_pages_follow_all_that_they_show(filled: Site) -> None:
    """A change of any kind that a page is made of makes it again."""
    catalogue = Catalogue(pages(FEATURES), lambda: 0.0)
    missing = set()
    for path in PATHS:
        reader, asked = Noted(filled.admin), asked_of(path)
        await catalogue.make(reader, asked)
        source = catalogue.source(asked)
        missing |= {(path, kind.kind) for kind in reader.kinds.difference(source.kinds, source.wide)}
    assert not missing
