"""Compare the networks that a machine is to have with those that its launcher pod has.

The cases are those of KubeVirt's evaluator (pkg/network/migration). Lanloom's evaluator differs in three points: the
most severe finding decides, and not the first one; a multus network that takes the place of the pod network is compared
too; and an unreadable annotation is reported, and not taken for an empty one.
"""

from collections.abc import Collection, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.core import Pod
from lanloom.api.kubevirt import InterfaceStatus, VirtualMachineInstance, VmInterface, VmNic, nad_of
from lanloom.api.multus import NETWORK_STATUS, interfaces_of

Need = Literal["none", "pending", "immediate"]
"""Whether a machine has to migrate for its networks. `pending`: unless the launcher pod gets them in a while."""

_SEVERITY: Mapping[Need, int] = {"none": 0, "pending": 1, "immediate": 2}

PRIMARY_INTERFACE = "eth0"
"""The interface of a launcher pod for the network that takes the place of the pod network."""


class NetworkFinding(Struct, frozen=True):
    """One network that the pod does not have as it is wanted.

    `network` is the machine's own name of it. `wanted` and `observed` are NADs as `namespace/name`; `observed` is empty
    where the pod has none, and `wanted` where the machine wants none any more.
    """

    network: str
    need: Need
    wanted: str = ""
    observed: str = ""

    @property
    def is_swap(self) -> bool:
        """Whether the network is there, and another one."""
        return bool(self.wanted and self.observed)


class Evaluation(Struct, frozen=True):
    """What the networks of a machine need. `observed` are NADs, by the machine's own names of its networks.

    It is not `known` where there is no launcher pod, or its networks can't be read; `error` says why then.
    """

    findings: tuple[NetworkFinding, ...] = ()
    observed: Mapping[str, str] = {}
    known: bool = True
    error: str = ""

    def without(self, networks: Collection[str]) -> "Evaluation":
        """Return the same without what is found of these networks."""
        if not networks:
            return self
        return replace(self, findings=tuple(item for item in self.findings if item.network not in networks))

    @property
    def need(self) -> Need:
        """The most severe need of all networks."""
        return max((item.need for item in self.findings), key=_SEVERITY.__getitem__, default="none")


_UNKNOWN = Evaluation(known=False)


def evaluate(machine: VirtualMachineInstance, pod: Pod | None) -> Evaluation:
    """Compare the machine with its launcher pod; None is a pod that is not known."""
    if pod is None:
        return _UNKNOWN
    try:
        attached = interfaces_of(pod.metadata.annotations.get(NETWORK_STATUS, ""))
    except ValueError as error:
        where = f"annotation {NETWORK_STATUS} of pod {pod.metadata.key}"
        remedy = "migrate" if machine.is_migratable else "restart"
        reason = f"{where}: {error}; {remedy} the machine, so that it gets a pod with a readable one"
        return Evaluation(known=False, error=reason)
    statuses = {item.name: item for item in machine.status.interfaces}
    networks = {item.name: item for item in machine.spec.networks if item.multus is not None}
    found: list[NetworkFinding] = []
    observed: dict[str, str] = {}
    for interface in machine.spec.interfaces:
        network = networks.get(interface.name)
        if network is None or network.multus is None:
            continue
        status = statuses.get(interface.name)
        name = attached.get(_pod_interface(network, status), "")
        if name:
            observed[network.name] = name
        finding = _finding(machine, interface, network, status, name)
        if finding is not None:
            found.append(finding)
    return Evaluation(tuple(found), observed)


def _pod_interface(network: VmNic, status: InterfaceStatus | None) -> str:
    if status is not None and status.pod_interface_name:
        return status.pod_interface_name
    return "" if network.is_secondary else PRIMARY_INTERFACE


def _finding(
    machine: VirtualMachineInstance,
    interface: VmInterface,
    network: VmNic,
    status: InterfaceStatus | None,
    observed: str,
) -> NetworkFinding | None:
    if network.is_secondary:
        need = plugging_need(interface, status)
        if need != "none":
            wanted = "" if interface.state == "absent" else _title(machine, network)
            return NetworkFinding(network.name, need, wanted, observed)
    if not observed or is_same(network, observed, machine.metadata.namespace):
        return None
    return NetworkFinding(network.name, "immediate", _title(machine, network), observed)


def plugging_need(interface: VmInterface, status: InterfaceStatus | None) -> Need:
    """Return what an interface needs that is to come or to go."""
    if interface.state != "absent":
        if status is not None:
            return "none"
        return "immediate" if interface.sriov is not None else "pending"
    if status is not None and status.is_from("multus-status") and not status.is_from("domain"):
        return "pending"
    return "none"


def is_same(network: VmNic, observed: str, namespace: str) -> bool:
    """Return whether a network is the one that Multus tells of.

    Multus looks for a default network without a namespace in a namespace of its own configuration, which is unknown
    here: only the names are compared then.
    """
    assert network.multus is not None
    wanted = network.multus.network_name
    if "/" in wanted:
        return wanted == observed
    if network.multus.default:
        return wanted == observed.rpartition("/")[2]
    return observed in (f"{namespace}/{wanted}", wanted)


def _title(machine: VirtualMachineInstance, network: VmNic) -> str:
    assert network.multus is not None
    return str(nad_of(network.multus, machine.metadata.namespace))
