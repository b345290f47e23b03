"""NetworkSwap (liveupdate.lanloom.io/v1alpha1): one NIC of a running machine moves to another NAD, without a migration.

A swap is written once, by the manager (policy of the machine) or by `lanloom vm move`. The manager decides its phase;
the agent of the machine's node brings the port to where the phase wants it, and says so in `port`. So neither writes
what the other does, and each can die at any moment.
"""

from typing import Annotated, Literal

from msgspec import Struct

from lanloom.api.meta import Condition, Key, Object, unseen
from lanloom.api.resource import AGE, READY, READY_MESSAGE, Column, Resource

GROUP = "liveupdate.lanloom.io"
VERSION = "v1alpha1"

FINALIZER = f"{GROUP}/swap"
"""Keeps a NetworkSwap whose port was touched until the port is where the swap's end wants it."""

POLICY = f"{GROUP}/policy"
"""Annotation of a VirtualMachine: how its NICs move to another network. See `Policy`."""

Policy = Literal["migrate", "in-place", "prefer-in-place"]
"""`migrate`: by live migration, as KubeVirt does. `in-place`: by moving the port on the node. `prefer-in-place`: so
where it can be done, else by live migration."""

Phase = Literal[
    "Pending",
    "Syncing",
    "Moving",
    "Recording",
    "UntilRestart",
    "Reverting",
    "Succeeded",
    "Reverted",
    "Failed",
    "",
]
"""How far a swap is.

Pending: the preflight has not passed. Syncing: alongside KubeVirt, the machine's spec names `to`, and its instance is
to follow before the port is touched. Moving: the port is to be on `to`. Recording: it is, and the pod's network-status
and the machine's spec are being written. UntilRestart: the port is on `to`, and KubeVirt takes that to the instance at
the next restart only; until then, the swap alone says so. Reverting: the port is to be on `from`. Succeeded, Reverted
and Failed are final; a swap that failed could not be brought back either, and its conditions say where the port is.
"""

FINAL: frozenset[Phase] = frozenset({"Succeeded", "Reverted", "Failed"})
"""The phases in which the manager does nothing more."""

QUIET: frozenset[Phase] = FINAL | {"UntilRestart"}
"""The phases in which nothing moves."""

FORWARD: frozenset[Phase] = frozenset({"Moving", "Recording", "UntilRestart", "Succeeded"})
BACK: frozenset[Phase] = frozenset({"Reverting", "Reverted", "Failed"})
"""The phases in which the port belongs on `to`, and on `from`; in others it is left where it is."""

ACTIVE: frozenset[Phase] = frozenset({"Syncing", "Moving", "Recording", "UntilRestart", "Reverting"})
"""The phases in which a swap owns the port of its NIC: no migration may be requested then."""

PREFLIGHT, MOVED, COMPLETE = "Preflight", "Moved", "Complete"
FLAPPED = "Flapped"
"""Conditions of a swap. Flapped is of those with `flap`: whether the guest has seen its link go down and up."""


class NetworkSwapSpec(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"from_": "from", "until_restart": "untilRestart"},
):
    """The NIC and its networks. All of it is immutable.

    `machine` is the VirtualMachineInstance in the namespace of the swap, `uid` its uid; `network` is the machine's own
    name of the network. `from_` and `to` are NADs as `namespace/name`. With `flap` the guest sees its link go down and
    up, so that it asks for a new lease. With `record` the VirtualMachine gets the new NAD after the move; otherwise it
    has it already. With `force`, a machine moves that KubeVirt may evict for it, or whose DHCP requests its pod answers
    with the former address. With `until_restart`, one moves whose instance does not follow.
    """

    machine: str = ""
    uid: str = ""
    network: str = ""
    from_: str = ""
    to: str = ""
    flap: bool = False
    record: bool = False
    force: bool = False
    until_restart: bool = False

    @property
    def source(self) -> Key:
        """The NAD that the NIC leaves."""
        return _key(self.from_)

    @property
    def target(self) -> Key:
        """The NAD that the NIC moves to."""
        return _key(self.to)


class SwapPort(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The NIC's port on the node, as the agent of the node reports it.

    `phase` is the one that the agent acted on: it does not act on an earlier one any more. `nad` (`namespace/name`) is
    where the port is. `error` says why it is not where the phase wants it; the agent tries again unless it is `final`.
    `gap_milliseconds` is how long the move left the port without a network; 0 if it is not known.
    """

    node: str = ""
    phase: Phase = ""
    link: str = ""
    nad: str = ""
    error: str = ""
    final: bool = False
    gap_milliseconds: float = 0.0
    moved_at: str = ""


class NetworkSwapStatus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How far the swap is. `pod` is the launcher pod; `port` is written by the agent of its node alone.

    `phase_since` is when the phase began. `addresses` are those that the machine has of the new network, where its
    addresses are managed. `former_result` is what Multus reported of the old one in network-status, as JSON.
    """

    phase: Phase = ""
    message: str = ""
    phase_since: str = ""
    pod: str = ""
    pod_uid: str = ""
    node: str = ""
    addresses: tuple[str, ...] = ()
    former_result: str = ""
    started_at: str = ""
    completed_at: str = ""
    port: SwapPort | None = None
    conditions: tuple[Condition, ...] = ()


class NetworkSwap(Object, frozen=True, kw_only=True):
    """The move of one NIC of a running machine to another network, in place."""

    spec: NetworkSwapSpec = NetworkSwapSpec()
    status: Annotated[NetworkSwapStatus, unseen("Ready")] = NetworkSwapStatus()


def swapped(swap: NetworkSwap) -> frozenset[tuple[str, Key]]:
    """Return the networks between which a swap is, each with the machine's own name for it; none once it has ended.

    One that failed is still on the network where its port was last, as far as the node has said.
    """
    spec, status = swap.spec, swap.status
    if status.phase not in FINAL:
        return frozenset({(spec.network, spec.source), (spec.network, spec.target)})
    if status.phase == "Failed" and (status.port is None or status.port.nad != spec.from_):
        return frozenset({(spec.network, spec.target)})
    return frozenset()


def _key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    return Key(namespace, name)


NETWORK_SWAPS = Resource(
    group=GROUP,
    version=VERSION,
    kind="NetworkSwap",
    plural="networkswaps",
    type=NetworkSwap,
    namespaced=True,
    short_names=("nswap",),
    status=True,
    required=("spec",),
    columns=(
        Column("Machine", ".spec.machine"),
        Column("Network", ".spec.network"),
        Column("To", ".spec.to"),
        READY,
        Column("Phase", ".status.phase"),
        Column("Gap-ms", ".status.port.gapMilliseconds", "number"),
        AGE,
        Column("Node", ".status.node", priority=1),
        READY_MESSAGE,
    ),
)
