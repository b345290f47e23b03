"""A cluster with a bit of everything: networks that work, that come, that fail, and machines on them.

Screenshots and browser tests look at it. `text` is put into every message and annotation that others may write.
"""

from collections.abc import Mapping
from typing import Any

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import EVENTS, NODES, PODS
from lanloom.api.dummy import DRAINING, DUMMY_CLUSTER_NETWORKS, FINALIZER, UID_LABEL
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import HELD_UNTIL, NETWORKS, NICS, STICKY_FOR
from lanloom.api.kubevirt import MIGRATIONS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.lan import LAN_NODES, LANS
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.multus import MULTUS_NETWORKS, NADS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.features.lan.counters import AGENTS, PORT
from lanloom.features.liveupdate.rules.report import NETWORKS_CURRENT
from lanloom.features.vlan.rules.report.cluster import matched_annotation
from lanloom.kube.http import HttpClient
from tests.console.agents import ADDRESSES
from tests.features.liveupdate import objects
from tests.features.vlan.cluster import cluster_network, nad, node, vlan_config

Raw = dict[str, Any]

CARRYING = ("node1", "node2", "node3")
AT = "2026-01-01T10:{:02}:00Z"


class Filler:
    """Writes the cluster's objects as their controllers would leave them; `text` is in what others may write."""

    def __init__(self, admin: HttpClient, text: str = "") -> None:
        self._admin = admin
        self._text = text

    async def fill(self) -> None:
        """Write all of it."""
        for number in range(1, 5):
            body = node(f"node{number}", address=f"192.168.100.{10 + number}", ready=number != 4)
            await self._put(NODES, body)
        await self._vlans()
        await self._lans()
        await self._agents()
        await self._isolated()
        await self._pools()
        await self._machines()
        await self._events()

    async def _put(self, kind: Resource[Any], body: Mapping[str, Any], namespace: str = "") -> str:
        """Create an object with its status; return its uid."""
        body = dict(body)
        status = body.pop("status", None)
        meta = body["metadata"]
        meta["annotations"] = {**meta.get("annotations", {})}
        if self._text:
            meta["annotations"]["note"] = self._text
        made = await self._admin.create(kind, body, namespace)
        if status is not None:
            await self._admin.patch(
                kind,
                meta["name"],
                {"status": status},
                namespace,
                subresource="status" if kind.status or kind in (NODES, PODS) else "",
            )
        return str(made.metadata.uid)

    def _condition(self, type: str, good: bool, reason: str, message: str = "", minute: int = 0) -> Raw:
        return {
            "type": type,
            "status": "True" if good else "False",
            "reason": reason,
            "message": f"{message}{self._text}",
            "lastTransitionTime": AT.format(minute),
        }

    async def _vlans(self) -> None:
        for name, nics in (("cluster-1", ("eth1", "eth2")), ("storage", ("eth3",))):
            matched = {names.MATCHED_NODES: matched_annotation(CARRYING)}
            good = name == "cluster-1"
            found = self._condition(
                "ready", good, "Ready" if good else "NotReady", "" if good else "node3: eth3 has no carrier"
            )
            await self._put(CLUSTER_NETWORKS, cluster_network(name) | {"status": {"conditions": [found]}})
            config = vlan_config(f"{name}-rack", name, nics=nics)
            config["metadata"]["annotations"] = matched
            await self._put(VLAN_CONFIGS, config)
        for name, network, vid, mode in (
            ("vlan2012", "cluster-1", 2012, "static"),
            ("guests", "cluster-1", 2013, ""),
            ("backup", "storage", 300, ""),
        ):
            addresses = {host: f"192.168.12.{host[-1]}/24" for host in CARRYING} if mode else None
            body = nad(name, network, vid, namespace="ours", mode=mode, addresses=addresses)
            await self._put(NADS, body, "ours")
        await self._put(NADS, nad("hidden", "cluster-1", 2099, namespace="theirs"), "theirs")
        for host in CARRYING:
            await self._report(host, "cluster-1", "")
            await self._report(host, "storage", "eth3 has no carrier" if host == "node3" else "")

    async def _report(self, host: str, network: str, fault: str) -> None:
        last = int(host[-1])
        interfaces = [
            {
                "vlanId": 2012,
                "name": f"{network}-br.2012",
                "network": "ours/vlan2012",
                "mode": "static",
                "address": f"192.168.12.{last}/24",
                "state": "Ready",
            }
        ]
        ready = self._condition("ready", not fault, "NoCarrier" if fault else "Ready", fault, last)
        status = {
            "node": host,
            "clusterNetwork": network,
            "vlanConfig": f"{network}-rack",
            "bridge": f"{network}-br",
            "uplink": f"{network}-bo",
            "mtu": 9000 if network == "storage" else 1500,
            "vlanIds": "1,300" if network == "storage" else "1,2012-2013,2099",
            "interfaces": interfaces if network == "cluster-1" else [],
            "conditions": [ready, self._condition("L3Ready", True, "Ready")],
        }
        await self._put(CLUSTER_NETWORK_NODES, {"metadata": {"name": f"{network}-{host}"}, "status": status})

    async def _lans(self) -> None:
        entries: dict[str, list[Raw]] = {host: [] for host in CARRYING}
        for number, (namespace, name, broken) in enumerate(
            (("ours", "blue", ""), ("ours", "green", "node2"), ("theirs", "secret", ""))
        ):
            spec = {"ns": f"{name}-ns", "bridge": "br0", "vxlan": "vx0", "vni": 4711 + number, "port": 4789}
            spec |= {"defaultVxlanDev": "eth0", "spokes": ["web", "db", "mail"]}
            results = [self._result(host, broken) for host in CARRYING]
            good = not broken
            found = self._condition(
                "Ready",
                good,
                "Ready" if good else "NotReady",
                "" if good else "node2: the underlay link eth0 is down",
                5,
            )
            status = {
                "mtu": 1450,
                "summary": "3/3" if good else "2/3",
                "nodes": results,
                "conditions": [found],
            }
            body = {"metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": status}
            uid = await self._put(LANS, body, namespace)
            for result, spoke in zip(results, ("web", "db", "mail"), strict=True):
                entries[result["name"]].append(
                    {"namespace": namespace, "name": name, "uid": uid, "vni": spec["vni"], "device": "eth0"}
                    | {key: result.get(key) for key in ("ready", "address", "mtu") if key in result}
                    | {"message": result.get("message", "")}
                    | {"spokes": [{"name": spoke, "mode": "veth", "pod": f"{namespace}/{spoke}"}]}
                )
        for host, lans in entries.items():
            await self._put(LAN_NODES, {"metadata": {"name": host}, "status": {"lans": lans}})

    def _result(self, host: str, broken: str) -> Raw:
        found: Raw = {"name": host, "ready": host != broken, "mtu": 1450}
        found["address"] = f"192.168.100.{10 + int(host[-1])}"
        return found | ({"message": f"the underlay link eth0 is down{self._text}"} if host == broken else {})

    async def _agents(self) -> None:
        for host, address in ADDRESSES.items():
            meta = {"name": f"lanloom-lan-{host}", "labels": dict([AGENTS.split("=")])}
            meta |= {"annotations": {PORT: "9811"}}
            container = {"name": "agent", "image": "lanloom", "ports": [{"containerPort": 9811}]}
            body = {
                "metadata": meta,
                "spec": {"nodeName": host, "hostNetwork": True, "containers": [container]},
                "status": {"phase": "Running", "podIP": address},
            }
            await self._put(PODS, body, LANLOOM_NAMESPACE)

    async def _isolated(self) -> None:
        for name, phase, message in (
            ("isolated", "Ready", ""),
            ("leaving", "DeletionBlocked", "kept by VirtualMachine ours/kept"),
        ):
            spec = {"bridgeName": f"{name[:9]}-br", "nadName": name, "nadNamespace": "ours"}
            good = phase == "Ready"
            status = {
                "phase": phase,
                "message": f"{message}{self._text}",
                "nodes": {"live": 3, "acknowledged": 3},
                "conditions": [self._condition("Ready", good, phase, message, 7)],
            }
            meta = {"name": name, "finalizers": [FINALIZER]}
            uid = await self._put(DUMMY_CLUSTER_NETWORKS, {"metadata": meta, "spec": spec, "status": status})
            made = nad(name, "", 0, namespace="ours")
            marks = {} if good else {DRAINING: AT.format(7)}
            made["metadata"] |= {"labels": {UID_LABEL: uid}, "annotations": marks}
            await self._put(NADS, made, "ours")
        await self._machine("ours", "kept", {"net": "leaving"}, {})

    async def _pools(self) -> None:
        for name, cidr, pools in (
            ("office", "10.0.4.0/24", ("10.0.4.16-10.0.4.143",)),
            ("lab", "10.0.8.0/26", ("10.0.8.10-10.0.8.25",)),
            ("dual", "fd00:4::/64", ("fd00:4::100-fd00:4::1ff",)),
        ):
            subnet = {"cidr": cidr, "pools": [{"range": item} for item in pools]}
            if name == "office":
                subnet |= {"gateway": "10.0.4.1", "external": ["10.0.4.40-10.0.4.47"]}
            status: Raw = {"conditions": [self._condition("Ready", True, "Ready")]}
            if name == "lab":
                status["conditions"].append(self._condition("NearlyFull", True, "NearlyFull", "", 9))
            if name == "office":
                status["inUse"] = [
                    {"ip": "10.0.4.100", "by": "the address of node node1", "of": "Node node1"}
                ]
            body = {"metadata": {"name": name}, "spec": {"subnets": [subnet]}, "status": status}
            await self._put(NETWORKS, body)
        for number in range(40):
            if number not in (24, 25, 26, 27):
                await self._nic(f"web-{number:02}", "office", f"10.0.4.{16 + number}")
        for number in range(14):
            await self._nic(f"job-{number:02}", "lab", f"10.0.8.{10 + number}")
        await self._nic("dual-0", "dual", "fd00:4::100")
        marks = {STICKY_FOR: "12h", HELD_UNTIL: AT.format(59)}
        await self._nic("queue-0", "office", "10.0.4.120", kind="Pod", annotations=marks)

    async def _nic(
        self, name: str, network: str, address: str, kind: str = "Instance", **meta: Mapping[str, str]
    ) -> None:
        owner = {"kind": kind, "name": name}
        status = {"network": network, "ips": [address], "address": address, "epoch": 1}
        spec = {"owner": owner, "network": network, "ips": ["pool"]}
        await self._put(NICS, {"metadata": {"name": name, **meta}, "spec": spec, "status": status}, "ours")

    async def _machines(self) -> None:
        await self._machine("ours", "web", {"blue": "guests"}, {"blue": "ours/guests"})
        db = await self._machine("ours", "db", {"blue": "vlan2012"}, {"blue": "ours/guests"})
        why = self._condition(
            NETWORKS_CURRENT, False, "BackingOff", "migration mail-1 failed; the next one follows", 12
        )
        await self._machine(
            "ours", "mail", {"blue": "backup"}, {"blue": "ours/guests"}, conditions=[objects.MIGRATABLE, why]
        )
        await self._machine("ours", "idle", {"blue": "guests"}, {})
        await self._machine("theirs", "secret", {"blue": "hidden"}, {"blue": "theirs/hidden"})
        swap = {"machine": "db", "uid": db, "network": "blue", "from": "ours/guests", "to": "ours/vlan2012"}
        for name, phase, gap, minute in (("db-1", "Succeeded", 9.7, 1), ("db-2", "Moving", 0.0, 30)):
            turned = phase == "Succeeded"
            spec = swap | ({"from": swap["to"], "to": swap["from"]} if turned else {})
            port = {"node": "node1", "phase": phase, "nad": spec["to"], "gapMilliseconds": gap}
            status = {
                "phase": phase,
                "message": self._text,
                "node": "node1",
                "port": port,
                "startedAt": AT.format(minute),
                "phaseSince": AT.format(minute),
                "conditions": [
                    self._condition("Preflight", True, "Passed", "", minute),
                    self._condition("Moved", turned, "Moved" if turned else "Moving", "", minute + 1),
                ],
            }
            meta = {"name": name, "namespace": "ours"}
            await self._put(NETWORK_SWAPS, {"metadata": meta, "spec": spec, "status": status}, "ours")
        for name, phase in (("mail-1", "Failed"), ("mail-2", "Succeeded")):
            body = {
                "metadata": {"name": name, "namespace": "ours"},
                "spec": {"vmiName": "mail"},
                "status": {"phase": phase},
            }
            await self._put(MIGRATIONS, body, "ours")

    async def _machine(
        self, place: str, name: str, wanted: Mapping[str, str], there: Mapping[str, str], **status: Any
    ) -> str:
        """Create a machine with an instance on node1, where it runs; return the instance's uid."""
        body = objects.machine(objects.on(wanted), name, namespace=place)
        owner = await self._put(VIRTUAL_MACHINES, body | {"status": {"printableStatus": "Running"}}, place)
        if not there:
            return ""
        spec = objects.on({nic: title.partition("/")[2] for nic, title in there.items()})
        running = objects.instance(spec, name, owner=owner, place=place, **status)
        uid = await self._put(VIRTUAL_MACHINE_INSTANCES, running, place)
        pod = objects.launcher(uid, there, name=name, place=place)
        pod["metadata"]["annotations"].pop(
            MULTUS_NETWORKS, None
        )  # no process serves the webhook that would look at it
        await self._put(PODS, pod, place)
        return uid

    async def _events(self) -> None:
        for number, (reason, message, type) in enumerate(
            (
                ("VlanRepaired", "put back VLAN 2012 on cluster-1-bo", "Normal"),
                ("NoCarrier", "eth3 has no carrier", "Warning"),
            )
        ):
            body = {
                "metadata": {"name": f"event-{number}"},
                "involvedObject": {"kind": "Node", "name": "node3"},
                "reason": reason,
                "message": f"{message}{self._text}",
                "type": type,
                "source": {"component": "lanloom-agent"},
                "lastTimestamp": AT.format(20 + number),
            }
            await self._put(EVENTS, body, "default")
