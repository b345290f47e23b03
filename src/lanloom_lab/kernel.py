"""The kernel of a lab: chosen by probing (`lanloom.node.kernel`), and reported to the user."""

import os
import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from lanloom.node.kernel import (
    AGENT_NEEDS,
    KernelFeature,
    Probe,
    probe,
)
from lanloom_lab.errors import BadOption, KernelFeatureMissing
from lanloom_lab.plan import KernelName

KernelKind = Literal["auto", "host", "uml"]


class KernelOption(Struct, frozen=True):
    """The kernel that a user requests; of user-mode Linux also one series, such as "6.1"."""

    kind: KernelKind = "auto"
    series: str = ""


def parse_kernel(text: str) -> KernelOption:
    """Read `auto`, `host`, `uml`, or `uml-SERIES` such as `uml-6.1`. Raises BadOption."""
    match text:
        case "auto" | "host" | "uml":
            return KernelOption(text)
    if series := re.fullmatch(r"uml-([1-9][0-9]?\.[0-9]{1,3})", text):
        return KernelOption("uml", series[1])
    raise BadOption(
        f"the kernel {text!r} is none of auto, host, uml and uml-SERIES",
        "Leave the option away to get the best one for this machine; `uml-6.1` asks for one series.",
    )


VETH = KernelFeature("veth", "the cables of the lab", "ip link add v0 type veth peer name v1")
OVERLAY = KernelFeature(
    "overlayfs",
    "the nodes' files in the lab",
    "mount -t tmpfs tmpfs /mnt && mkdir /mnt/upper /mnt/work"
    " && mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work /mnt",
)
TAP = KernelFeature(
    "tap", "the machines of the lab, and the wire to user-mode Linux", "ip tuntap add dev t0 mode tap"
)

DUMMY = KernelFeature("dummy", "the network of a machine's pod", "ip link add d0 type dummy")

HOST_LAB_NEEDS = (*AGENT_NEEDS, VETH, OVERLAY, TAP, DUMMY)
UML_LAB_NEEDS = (TAP,)


KERNELS: dict[KernelName, str] = {"host": "the host's", "uml": "user-mode Linux"}
"""The kernels' names for people."""


class SelectedKernel(Struct, frozen=True):
    """The kernel of the lab, and the reason for the user. `version` is empty for that of the host."""

    kernel: KernelName
    reason: str
    version: str = ""

    def __str__(self) -> str:
        return f"{' '.join(filter(None, [KERNELS[self.kernel], self.version]))} ({self.reason})"


def choose(
    requested: KernelKind, host: Iterable[Probe], uml: Iterable[Probe], *, root: bool
) -> SelectedKernel:
    """Choose the kernel from the probes of both kinds. Raises KernelFeatureMissing for an unsuitable one."""
    lacking = [item.feature.name for item in host if not item.present]
    host_fault = (
        f"the host's kernel lacks {_listed(lacking)}" if lacking else "" if root else "you are not root"
    )
    if requested == "host" and host_fault:
        raise KernelFeatureMissing(
            f"the host's kernel can't carry the lab: {host_fault}",
            "Use `--kernel uml`, which brings a kernel of its own, or leave the option away.",
        )
    if requested == "host" or (requested == "auto" and not host_fault):
        return SelectedKernel(
            "host", "as you asked" if requested == "host" else "it has every feature that the lab needs"
        )
    faults = [f"{item.feature.name} ({item.error})" for item in uml if not item.present]
    if faults:
        raise KernelFeatureMissing(
            f"user-mode Linux can't be joined to this host; missing: {_listed(faults)}"
            + (f"; and {host_fault}" if requested == "auto" else ""),
            "The lab needs network namespaces and /dev/net/tun: run as root, or allow both to this container.",
        )
    return SelectedKernel("uml", "as you asked" if requested == "uml" else host_fault)


def choose_here(requested: KernelKind) -> SelectedKernel:
    """Choose the kernel for a lab on this machine, after probing it. Raises KernelFeatureMissing."""
    host = probe(HOST_LAB_NEEDS) if requested != "uml" else ()
    uml = probe(UML_LAB_NEEDS) if requested != "host" else ()
    return choose(requested, host, uml, root=os.geteuid() == 0)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
