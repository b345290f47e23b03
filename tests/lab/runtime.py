"""A container runtime on a lab's nodes, as far as CNI goes: sandboxes, a NAD's plugin, what it gets about a pod."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.lab.driver import Lab

Raw = dict[str, Any]

PLUGINS = "/usr/lib/cni"
"""Where Debian has the reference plugins."""

OURS = "/opt/cni/bin/lanloom-ipam"
INTERFACE = "net1"

_CALL = """
cd / && env -i PATH=/usr/sbin:/usr/bin CNI_PATH={plugins}:/opt/cni/bin CNI_COMMAND={command} \
  CNI_CONTAINERID='{container}' CNI_NETNS=/run/netns/{netns} CNI_IFNAME={interface} CNI_ARGS='{args}' {program} <<'END'
{config}
END
"""

_SWEEP = """
for name in $(ip netns list | cut -d' ' -f1); do
    case $name in cni-*) ip netns delete $name ;; esac
done
"""


@dataclass(frozen=True)
class Sandbox:
    """A pod's network namespace, under the id that the runtime gave it; one that is made again has another number."""

    node: str
    pod: str
    uid: str
    number: int = 1

    @property
    def container(self) -> str:
        """64 hexadecimal digits, as real runtimes have."""
        return hashlib.sha256(f"{self.pod} {self.uid} {self.number}".encode()).hexdigest()

    @property
    def netns(self) -> str:
        """The name of the namespace on its node."""
        return f"cni-{self.container[:12]}"

    @property
    def args(self) -> str:
        """`CNI_ARGS` in the order in which containerd writes them."""
        return (
            f"IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={self.pod};"
            f"K8S_POD_INFRA_CONTAINER_ID={self.container};K8S_POD_UID={self.uid}"
        )

    def script(
        self, command: str, config: Raw, *, program: str = "", args: str = "", container: str = ""
    ) -> str:
        """The shell's words for a call of the configuration's plugin, or of another program."""
        return _CALL.format(
            plugins=PLUGINS,
            command=command,
            container=container or self.container,
            netns=self.netns,
            interface=INTERFACE,
            args=args or self.args,
            program=program or f"{PLUGINS}/{config['type']}",
            config=json.dumps(config),
        )


class Runtime:
    """Makes sandboxes, and calls a NAD's plugin for them."""

    def __init__(self, lab: Lab, nodes: Iterable[str]) -> None:
        self._lab = lab
        self._nodes = nodes

    def make(self, node: str, *pods: str, number: int = 1) -> list[Sandbox]:
        """A sandbox without any interface for each of these pods of the API's."""
        items = json.loads(self._lab.kubectl("get", "pods", "-n", "default", "-o", "json"))["items"]
        uids = {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}
        made = [Sandbox(node, pod, uids[pod], number) for pod in pods]
        self._lab.on(node, "".join(f"ip netns add {item.netns}\n" for item in made))
        return made

    def remove(self, sandbox: Sandbox) -> None:
        """Takes the namespace away, and with it what is still in it."""
        self._lab.on(sandbox.node, f"ip netns delete {sandbox.netns}")

    def sweep(self) -> None:
        """Takes away every sandbox of every node."""
        for node in self._nodes:
            self._lab.on(node, _SWEEP)

    def call(
        self, sandbox: Sandbox, command: str, config: Raw, *, status: int | None = 0, **more: str
    ) -> Raw:
        """What the plugin answers, empty for nothing; `more` is as for Sandbox.script."""
        text = self._lab.on(sandbox.node, sandbox.script(command, config, **more), status=status)
        answer: Raw = json.loads(text or "{}")
        return answer

    def call_at_once(self, command: str, config: Raw, sandboxes: list[Sandbox]) -> list[Raw]:
        """What the plugin answers where it is called for all of these, which are on one node, at the same time."""
        calls = (f"( {item.script(command, config)} ) >/tmp/{item.netns} &\n" for item in sandboxes)
        files = " ".join(f"/tmp/{item.netns}" for item in sandboxes)
        script = f"{''.join(calls)} wait; for file in {files}; do tr -d '\\n' <$file; echo; done; rm {files}"
        return [json.loads(line) for line in self._lab.on(sandboxes[0].node, script).splitlines()]

    def call_in_turn(self, sandbox: Sandbox, scripts: list[str]) -> list[Raw]:
        """What these calls answer, one after the other, each with the sandbox as it was before."""
        clear = f"echo; ip -n {sandbox.netns} link delete {INTERFACE} 2>/dev/null || true"
        parts = (f"( {script} ) | tr -d '\\n'; {clear}\n" for script in scripts)
        return [json.loads(line) for line in self._lab.on(sandbox.node, "".join(parts)).splitlines()]

    def inside(self, sandbox: Sandbox, command: str, *, status: int | None = 0) -> str:
        """What a command prints in the sandbox's namespace."""
        return self._lab.on(sandbox.node, f"ip netns exec {sandbox.netns} {command}", status=status)

    def reaches(self, sandbox: Sandbox, address: str) -> bool:
        """Whether one of a few echoes from the sandbox is answered."""
        ping = f"ip netns exec {sandbox.netns} ping -c 1 -w 4 {address}"
        return self._lab.on(sandbox.node, f"{ping} >/dev/null && echo reached", status=None) == "reached\n"
