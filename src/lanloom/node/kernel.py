"""What a kernel can do: found out by trying, in namespaces that are thrown away, never from a kernel's name.

A version says nothing: distributions leave features out, and a container may forbid what its kernel can do.
"""

import os
import subprocess
from collections.abc import Iterable

from msgspec import Struct


class KernelFeature(Struct, frozen=True):
    """A feature of a kernel: its name, what Lanloom needs it for, and a command that fails without it."""

    name: str
    purpose: str
    trial: str


class Probe(Struct, frozen=True):
    """The outcome of a trial: `error` is empty where the kernel has the feature."""

    feature: KernelFeature
    error: str = ""

    @property
    def present(self) -> bool:
        """Whether the trial succeeded."""
        return not self.error


BRIDGE = KernelFeature("bridge", "the cluster network's bridge", "ip link add b0 type bridge")
FILTERING = KernelFeature(
    "bridge VLAN filtering",
    "VLAN ids on the bridge and its ports",
    "ip link add b1 type bridge vlan_filtering 1",
)
VLAN = KernelFeature(
    "802.1Q",
    "VLAN sub-interfaces",
    "ip link add b2 type bridge && ip link add link b2 name b2.7 type vlan id 7",
)
BOND = KernelFeature("bonding", "the uplink of several NICs", "ip link add o0 type bond")
AGENT_NEEDS = (BRIDGE, FILTERING, VLAN, BOND)
"""The features that an agent needs of the kernel of its node."""


def namespaces_command(*kinds: str) -> list[str]:
    """Return the `unshare` that gives new namespaces; an ordinary user gets them with a user namespace around."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, *(f"--{kind}" for kind in kinds)]


def probe(features: Iterable[KernelFeature]) -> tuple[Probe, ...]:
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
