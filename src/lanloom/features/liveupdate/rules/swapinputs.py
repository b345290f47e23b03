"""Inputs and outputs of the phases of a swap (`rules.swap`): what is known of it, and what the manager does next."""

from typing import Literal

from msgspec import Struct

from lanloom.api.core import EventDraft
from lanloom.api.kubevirt import VirtualMachineInstance
from lanloom.api.liveupdate import NetworkSwap, NetworkSwapStatus
from lanloom.api.meta import Key
from lanloom.features.liveupdate.rules.preflight import Findings

Step = Literal[
    "hold", "release", "pod", "machine", "pod-back", "machine-back", "link-down", "link-up", "link-unset"
]
"""`hold` keeps KubeVirt's workload updater from the machine as long as the swap lasts; `release` ends that.

`pod` writes the new NAD into the launcher pod's annotations, `machine` into the VirtualMachine; `-back` undoes it.

The others set the state of the NIC in the VirtualMachine, by which KubeVirt sets the guest's link down and up.
"""


class Claim(Struct, frozen=True, kw_only=True):
    """The addresses of the new network for the machine's NIC, where they are managed.

    `problem` says why there are none, empty while they are on their way.
    """

    ready: bool = True
    addresses: tuple[str, ...] = ()
    problem: str = ""


class SwapInputs(Struct, frozen=True, kw_only=True):
    """All that is known of a swap.

    `machine` is the instance of the name, whatever its uid. `pod_uid` is the uid of its launcher pod on the node of the
    swap, empty where it is gone. `reported` is what its network-status tells of the network of the NIC besides the NAD.
    `attached` is the NAD that the pod's network-status has for the NIC; None where it can't be read. `named` is the NAD
    in the VirtualMachine's template; None without a VirtualMachine or network. `link` is the state of the NIC in that
    template, None where there is none; `guest_link` the one that KubeVirt reports. `beside` says that KubeVirt runs: it
    alone takes networks from the VirtualMachine to the instance, which names `asked`; `held` that its workload updater
    leaves the machine alone, and `restart_due` that it asks for a restart. `migrating` names a migration that has not
    ended, `conflicting` an older swap of the NIC. `refused` is the last refusal of a step of the manager. `forbidden`
    says why namespace isolation keeps the machine from the new NAD; empty if it does not. `now` is in seconds since the
    epoch.
    """

    swap: NetworkSwap
    machine: VirtualMachineInstance | None
    pod_uid: str = ""
    pod: str = ""
    reported: str = ""
    attached: Key | None = None
    named: Key | None = None
    link: str | None = None
    guest_link: str = ""
    beside: bool = False
    asked: Key | None = None
    held: bool = False
    restart_due: bool = False
    findings: Findings = Findings()
    claim: Claim = Claim()
    migrating: str = ""
    conflicting: str = ""
    refused: str = ""
    forbidden: str = ""
    now: float = 0.0


class Decision(Struct, frozen=True, kw_only=True):
    """The status to write, then the steps to take, then Events. `wait` is when to look again without being woken."""

    status: NetworkSwapStatus
    steps: tuple[Step, ...] = ()
    events: tuple[EventDraft, ...] = ()
    wait: float | None = None
