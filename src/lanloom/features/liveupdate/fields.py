"""The fields of machines and of their NICs in `lanloom vm list` and `lanloom vm show`."""

from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.cli.query import Field, Query
from lanloom.features.liveupdate.views import POD_NETWORK, MachineView, NicView


def _networks(view: MachineView) -> list[str]:
    """Return for each NIC with a NAD where it is to be, and where it is if that is somewhere else."""
    return [
        _place(nic, f"{view.namespace}/")
        for nic in view.nics
        if nic.wanted != POD_NETWORK or nic.observed not in ("", POD_NETWORK)
    ]


def _place(nic: NicView, own: str) -> str:
    wanted, found = nic.wanted.removeprefix(own) or "(unplug)", nic.observed.removeprefix(own)
    return f"{nic.name}={wanted}" if nic.is_settled or not found else f"{nic.name}={found}→{wanted}"


MACHINE_FIELDS: Query[MachineView] = Query(
    (
        Field("namespace", "Namespace", "text", "Namespace", lambda view: view.namespace, whole=True),
        Field("name", "Name", "text", "Name", lambda view: view.name, whole=True),
        Field(
            "state",
            "State",
            "text",
            "Ready, Stopped, Waiting, Swapping, Migrating, RestartRequired, or KubeVirt's phase",
            lambda view: view.state,
            style=lambda view: "green" if view.is_well else "yellow",
            whole=True,
        ),
        Field("node", "Node", "text", "Node", lambda view: view.node or None, whole=True),
        Field(
            "nics",
            "NICs",
            "list",
            "NICs with NADs; a→b where a NIC is on a and is to be on b",
            _networks,
            text=lambda names: " ".join(names),
        ),
        Field("policy", "Policy", "text", "How its NICs move to another network", lambda view: view.policy),
        Field(
            "migratable", "Migratable", "bool", "Whether it can migrate live", lambda view: view.migratable
        ),
        Field("message", "Message", "text", "Why it is in this state", lambda view: view.message),
        Field("since", "Since", "timestamp", "Since when it is not well", lambda view: view.since or None),
    ),
    ("namespace", "name", "state", "node", "nics"),
    ruled=True,
    resource=f"{VIRTUAL_MACHINES.singular}.{VIRTUAL_MACHINES.group}",
)
"""The fields of `lanloom vm list`."""

NIC_FIELDS: Query[NicView] = Query(
    (
        Field("nic", "NIC", "text", "NIC", lambda nic: nic.name, whole=True),
        Field(
            "wanted", "Wanted", "text", "NAD of the machine", lambda nic: nic.wanted or "(unplug)", whole=True
        ),
        Field(
            "observed",
            "Observed",
            "text",
            "NAD that it is attached to",
            lambda nic: nic.observed or None,
            style=lambda nic: "green" if nic.is_settled else "yellow" if nic.observed else "",
            whole=True,
        ),
        Field("binding", "Binding", "text", "Binding", lambda nic: nic.binding or None),
        Field("mac", "MAC", "text", "MAC address", lambda nic: nic.mac or None, whole=True),
        Field(
            "interface",
            "In the pod",
            "text",
            "Interface in the launcher pod",
            lambda nic: nic.interface or None,
        ),
        Field("state", "Link", "text", "Requested state of the link", lambda nic: nic.state or None),
    ),
    ("nic", "wanted", "observed", "binding", "mac"),
    ruled=True,
)
"""The NICs in `lanloom vm show`."""
