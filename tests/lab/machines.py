"""Virtual machines of a lab, with words for what tests do to them: real guests, and kubectl."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from lanloom.api.kubevirt import pod_interface_name
from lanloom.api.multus import NETWORK_STATUS
from tests.lab.driver import Lab, WrongStatus, eventually

Raw = dict[str, Any]


class Identity(Struct, frozen=True):
    """What a guest keeps while its network changes: its boot, its MAC address, and how often its link went down."""

    boot_id: str
    mac: str
    carrier_changes: int


class Machine:
    """A VirtualMachine of the namespace `default`, and its guest."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab = lab
        self.name = name

    def create(self, *nads: str, address: str = "", migratable: bool = True, **annotations: str) -> None:
        """A machine with a NIC `net0`, `net1` … on each NAD; the first has the address, a CIDR."""
        self.lab.apply(body(self.name, nads, address, migratable=migratable, annotations=annotations))
        eventually(lambda: self.attempt("true") is not None, timeout=240)

    def run(self, command: str) -> str:
        """What a command prints in the guest. Right after a migration, the lab may look for it where it was."""
        answers: list[tuple[int, str]] = []

        def asked() -> bool:
            answers[:] = [self.lab.in_guest(self.name, command)]
            return f"no machine default/{self.name} runs" not in answers[0][1]

        eventually(asked)
        ((status, printed),) = answers
        if status != 0:
            raise WrongStatus(f"{command}: {status}\n{printed}")
        return printed

    def attempt(self, command: str) -> str | None:
        """What a command prints in the guest; None if it fails, or if there is no guest."""
        status, printed = self.lab.in_guest(self.name, command)
        return printed if status == 0 else None

    def identity(self, nic: str = "eth0") -> Identity:
        """What must stay."""
        boot, mac, changes = self.run(f"boot_id; hardware_address {nic}; carrier_changes {nic}").split()
        return Identity(boot, mac, int(changes))

    def reaches(self, address: str) -> bool:
        """Whether one of a few echoes from the guest is answered."""
        return self.attempt(f"ping -c 1 -W 3 {address}") is not None

    def instance(self) -> Raw:
        """The machine's instance; empty if there is none."""
        return self._get("vmi", self.name)

    def reported_macs(self) -> list[str]:
        """The MAC addresses of the instance's status; none while none was reported."""
        found = self.instance().get("status", {}).get("interfaces") or []
        return [str(item.get("mac", "")) for item in found]

    def machine(self) -> Raw:
        """The VirtualMachine."""
        return self._get("vm", self.name)

    @property
    def node(self) -> str:
        """The node that has the guest."""
        return str(self.instance().get("status", {}).get("nodeName", ""))

    @property
    def pod(self) -> str:
        """The pod that has the guest; empty if it is just changing."""
        status = self.instance().get("status", {})
        items = json.loads(self.lab.kubectl("get", "pods", "-o", "json"))["items"]
        names = {item["metadata"]["uid"]: str(item["metadata"]["name"]) for item in items}
        active = status.get("activePods") or {}  # none while the instance is made again or changes hands
        here = (uid for uid, node in active.items() if node == status.get("nodeName"))
        return next((names[uid] for uid in here if uid in names), "")

    def pods(self) -> list[str]:
        """The machine's pods."""
        return self.lab.kubectl("get", "pods", "-l", f"vm.kubevirt.io/name={self.name}", "-o", "name").split()

    def attached(self, network: str) -> str:
        """The NAD to which the pod that has the guest is attached for a network, as `namespace/name`."""
        name = self.pod
        pod = self._get("pod", name) if name else {}
        found = pod.get("metadata", {}).get("annotations", {}).get(NETWORK_STATUS, "[]")
        link = pod_interface_name(network)
        return next((str(item["name"]) for item in json.loads(found) if item["interface"] == link), "")

    def migration_state(self) -> Raw:
        """The state of the instance's migration; empty before the first."""
        return dict(self.instance().get("status", {}).get("migrationState") or {})

    def complaint(self) -> str:
        """What `lanloom vm show` prints of the machine."""
        return self.lab.lanloom("vm", "show", self.name)

    def edit(self, **nads: str) -> None:
        """Change the NADs of networks, by their names, as users do; a network that is new gets a NIC."""
        spec = self.machine()["spec"]["template"]["spec"]
        for name, nad in nads.items():
            found = next((item for item in spec["networks"] if item["name"] == name), None)
            if found is None:
                spec["domain"]["devices"]["interfaces"].append({"name": name, "bridge": {}})
                spec["networks"].append({"name": name, "multus": {"networkName": nad}})
            else:
                found["multus"]["networkName"] = nad
        patch = {"spec": {"template": {"spec": spec}}}
        self.lab.kubectl("patch", "vm", self.name, "--type=merge", "-p", json.dumps(patch))

    def migrate(self) -> None:
        """Move the machine to another node, and wait until it is there."""
        before = self.node
        migration = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstanceMigration",
            "metadata": {"name": f"{self.name}-by-hand", "namespace": "default"},
            "spec": {"vmiName": self.name},
        }
        self.lab.apply(migration)
        eventually(lambda: self.migrations().get(f"{self.name}-by-hand") == "Succeeded", timeout=240)
        assert self.node != before

    def history(self) -> list[Raw]:
        """The machine's migrations, the oldest first."""
        items = json.loads(self.lab.kubectl("get", "vmim", "-o", "json"))["items"]
        mine = [dict(item) for item in items if item["spec"]["vmiName"] == self.name]
        return sorted(mine, key=lambda item: str(item["metadata"]["creationTimestamp"]))

    def migrations(self) -> dict[str, str]:
        """The phases of the machine's migrations, by their names."""
        found = self.history()
        return {item["metadata"]["name"]: item.get("status", {}).get("phase", "") for item in found}

    def condition(self, kind: str, type: str) -> Raw:
        """A condition of the machine (`vm`) or its instance (`vmi`); empty if there is none."""
        found = self._get(kind, self.name).get("status", {}).get("conditions", ())
        return next((dict(item) for item in found if item["type"] == type), {})

    def _get(self, kind: str, name: str) -> Raw:
        text = self.lab.kubectl("get", kind, name, "--ignore-not-found", "-o", "json")
        return dict(json.loads(text)) if text.strip() else {}


def body(
    name: str, nads: tuple[str, ...], address: str, *, migratable: bool, annotations: Mapping[str, str]
) -> Raw:
    """A machine as users write it."""
    names = [f"net{number}" for number in range(len(nads))]
    macs = [f"02:00:00:{sum(name.encode()) % 256:02x}:00:{number:02x}" for number in range(len(nads))]
    domain: Raw = {
        "devices": {
            "interfaces": [
                {"name": nic, "bridge": {}, "macAddress": mac} for nic, mac in zip(names, macs, strict=True)
            ]
        },
        "resources": {"requests": {"memory": "128Mi"}},
    }
    if not migratable:
        domain["cpu"] = {"model": "host-passthrough"}
    data = json.dumps({"version": 2, "ethernets": {"eth0": {"addresses": [address]}}}) if address else "{}"
    spec = {
        "domain": domain,
        "networks": [
            {"name": nic, "multus": {"networkName": nad}} for nic, nad in zip(names, nads, strict=True)
        ],
        "volumes": [{"name": "init", "cloudInitNoCloud": {"networkData": data}}],
    }
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": "default", "annotations": dict(annotations)},
        "spec": {"runStrategy": "Always", "template": {"spec": spec}},
    }


def remove_machines(lab: Lab) -> None:
    """Deletes all machines, and waits until they are gone."""
    lab.kubectl("delete", "vm", "--all", "--timeout=300s")
    lab.kubectl("delete", "vmim", "--all", "--timeout=300s")
    eventually(lambda: not json.loads(lab.kubectl("get", "vmi", "-o", "json"))["items"], timeout=300)
