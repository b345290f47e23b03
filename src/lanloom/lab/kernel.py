"""Which kernel can carry a lab: found out by trying, in namespaces that are thrown away, never from a kernel's name.

A version says nothing: distributions leave features out, and a container may forbid what its kernel can do.
"""

import os
import re
import subprocess
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from lanloom.lab.errors import BadOption, KernelLacks
from lanloom.lab.plan import KernelChoice

KernelKind = Literal["auto", "host", "uml"]


class KernelWish(Struct, frozen=True):
    """The kernel that a user asks for; of user-mode Linux also one series, such as "6.1"."""

    kind: KernelKind = "auto"
    series: str = ""


def parse_wish(text: str) -> KernelWish:
    """Reads `auto`, `host`, `uml`, or `uml-SERIES` such as `uml-6.1`. Raises BadOption."""
    match text:
        case "auto" | "host" | "uml":
            return KernelWish(text)
    if series := re.fullmatch(r"uml-([1-9][0-9]?\.[0-9]{1,3})", text):
        return KernelWish("uml", series[1])
    raise BadOption(
        f"the kernel {text!r} is none of auto, host, uml and uml-SERIES",
        "Leave the option away to get the best one for this machine; `uml-6.1` asks for one series.",
    )


class Feature(Struct, frozen=True):
    """A feature of a kernel: its name, what Lanloom needs it for, and a command that fails without it."""

    name: str
    purpose: str
    trial: str


class Probe(Struct, frozen=True):
    """The outcome of a trial: `error` is empty where the kernel has the feature."""

    feature: Feature
    error: str = ""

    @property
    def present(self) -> bool:
        """Whether the trial succeeded."""
        return not self.error


BRIDGE = Feature("bridge", "the cluster network's bridge", "ip link add b0 type bridge")
FILTERING = Feature(
    "bridge VLAN filtering",
    "VLAN ids on the bridge and its ports",
    "ip link add b1 type bridge vlan_filtering 1",
)
VLAN = Feature(
    "802.1Q",
    "VLAN sub-interfaces",
    "ip link add b2 type bridge && ip link add link b2 name b2.7 type vlan id 7",
)
BOND = Feature("bonding", "the uplink of several NICs", "ip link add o0 type bond")
VETH = Feature("veth", "the cables of the lab", "ip link add v0 type veth peer name v1")
OVERLAY = Feature(
    "overlayfs",
    "the nodes' files in the lab",
    "mount -t tmpfs tmpfs /mnt && mkdir /mnt/upper /mnt/work"
    " && mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work /mnt",
)
TAP = Feature("tap", "the wire to user-mode Linux", "ip tuntap add dev t0 mode tap")

AGENT_NEEDS = (BRIDGE, FILTERING, VLAN, BOND)
"""What an agent needs of the kernel of its node."""

HOST_LAB_NEEDS = (*AGENT_NEEDS, VETH, OVERLAY)
UML_LAB_NEEDS = (TAP,)


KERNELS: dict[KernelChoice, str] = {"host": "the host's", "uml": "user-mode Linux"}
"""The kernels' names for people."""


class Choice(Struct, frozen=True):
    """The kernel that the lab gets, and why, for the user. `version` is empty for the host's."""

    kernel: KernelChoice
    reason: str
    version: str = ""

    def __str__(self) -> str:
        return f"{' '.join(filter(None, [KERNELS[self.kernel], self.version]))} ({self.reason})"


def namespaces_command(*kinds: str) -> list[str]:
    """The `unshare` that gives new namespaces; an ordinary user gets them with a user namespace around."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, *(f"--{kind}" for kind in kinds)]


def probe(features: Iterable[Feature]) -> tuple[Probe, ...]:
    """Try each feature in a throwaway network and mount namespace; takes some tens of milliseconds."""
    wanted = tuple(features)
    script = "".join(_TRIAL.format(trial=feature.trial) for feature in wanted)
    done = subprocess.run(
        [*namespaces_command("net", "mount"), "/bin/sh"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    answers = done.stdout.splitlines()
    if len(answers) != len(wanted):
        complaint = done.stderr.strip() or "namespaces can't be made"
        return tuple(Probe(feature, complaint) for feature in wanted)
    return tuple(Probe(feature, answer) for feature, answer in zip(wanted, answers, strict=True))


_TRIAL = """\
if said=$( ({trial}) 2>&1 >/dev/null ); then echo
else printf '%s\\n' "${{said:-it failed without a word}}" | head -n 1
fi
"""
"""Prints one line: why the trial failed, or nothing on it."""


def choose(wish: KernelKind, host: Iterable[Probe], uml: Iterable[Probe], *, root: bool) -> Choice:
    """The kernel for a lab, from the probes of both kinds. Raises KernelLacks when the wish can't be fulfilled."""
    lacking = [item.feature.name for item in host if not item.present]
    host_fault = (
        f"the host's kernel lacks {_listed(lacking)}" if lacking else "" if root else "you are not root"
    )
    if wish == "host" and host_fault:
        raise KernelLacks(
            f"the host's kernel can't carry the lab: {host_fault}",
            "Use `--kernel uml`, which brings a kernel of its own, or leave the option away.",
        )
    if wish == "host" or (wish == "auto" and not host_fault):
        return Choice("host", "as you asked" if wish == "host" else "it has every feature that the lab needs")
    faults = [f"{item.feature.name} ({item.error})" for item in uml if not item.present]
    if faults:
        raise KernelLacks(
            f"user-mode Linux can't be joined to this host; missing: {_listed(faults)}"
            + (f"; and {host_fault}" if wish == "auto" else ""),
            "The lab needs network namespaces and /dev/net/tun: run as root, or allow both to this container.",
        )
    return Choice("uml", "as you asked" if wish == "uml" else host_fault)


def choose_here(wish: KernelKind) -> Choice:
    """The kernel for a lab on this machine, after probing it. Raises KernelLacks."""
    host = probe(HOST_LAB_NEEDS) if wish != "uml" else ()
    uml = probe(UML_LAB_NEEDS) if wish != "host" else ()
    return choose(wish, host, uml, root=os.geteuid() == 0)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
