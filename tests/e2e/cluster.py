"""A whole cluster of two real nodes: kube-apiserver, controllers, kubelets, containerd, and pods that these reach.

What is played: the scheduler, the network between nodes (a cable), Services (the API server alone asks one, by its
endpoints), and Multus, unless MULTUS names its program.
"""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_network
from pathlib import Path

import yaml

from lanloom_lab.assets import default_cache
from scripts.image.build import build
from tests.harness.nodes.enclosure import connect, python
from tests.harness.nodes.node import RealNode, bridged, with_nads
from tests.harness.nodes.pods import Raw, container_of
from tests.harness.nodes.programs import NodePrograms
from tests.harness.nodes.scheduler import Scheduler
from tests.harness.servers.egress import Egress
from tests.harness.servers.family import IPV4, IPV6, Family
from tests.harness.servers.helm import Helm, helm_library
from tests.harness.servers.real import RealServer

EPOCH = 1767225600
UNDERLAY = "eth0"
PLACES = {
    IPV4: {"node1": ("10.88.1.0/24", "10.99.0.1/24"), "node2": ("10.88.2.0/24", "10.99.0.2/24")},
    IPV6: {"node1": ("fd00:88:1::/64", "fd00:99::1/64"), "node2": ("fd00:88:2::/64", "fd00:99::2/64")},
}
"""Name of each node → the range of its pods, and its address on the cable."""

CONTROLLERS = (
    "daemonset",
    "deployment",
    "endpoint",
    "endpointslice",
    "garbagecollector",
    "namespace",
    "replicaset",
    "resourcequota",
    "root-ca-cert-publisher",
    "serviceaccount",
)
ROLLOUT = "300s"


class ChartNode:
    """A node of the cluster."""

    def __init__(self, node: RealNode, address: str) -> None:
        self.node = node
        self.name = node.name
        self._address = address
        self.boot()

    def boot(self) -> None:
        """Configure what the node's own network is at each start."""
        self.node.enclosure.run("ip", "address", "add", self._address, "dev", UNDERLAY)
        self.node.enclosure.run("ip", "link", "set", UNDERLAY, "up")

    def reboot(self) -> None:
        """Lose the power, and start again."""
        self.node.reboot(self.boot)

    def in_pod(self, pod: Raw, *command: str) -> str:
        """Run a program of the node in a pod's network namespace."""
        return self.node.in_pod(container_of(pod), *command)


class RealCluster:
    """The nodes, and the programs of an administrator."""

    def __init__(self, server: RealServer, binaries: Path, one: ChartNode, other: ChartNode) -> None:
        self.server = server
        self.one, self.other = one, other
        self.nodes = {each.name: each for each in (one, other)}
        self._kubectl = [str(binaries / "kubectl"), "--kubeconfig", str(server.kubeconfig)]
        self.helm = Helm(helm_library(default_cache(), print), server.kubeconfig, "kube-system")
        # 1.20 has no policy/v1 yet.
        self.values: Raw = {
            "agent": {"features": ["ipam", "dummy"]},
            "manager": {"disruptionBudget": not server.is_older_than("1.21")},
            "paths": {"cniConfig": "/run/cni/net.d"},
            "crds": {"keep": False},
        }

    def kubectl(self, *words: str, given: str = "") -> str:
        """Run kubectl and return its output."""
        return self._run([*self._kubectl, *words], given)

    def lanloom(self, *words: str) -> str:
        """Run the command as an administrator and return its output."""
        return self._run(
            [*python(), "-m", "lanloom", *words, "--kubeconfig", str(self.server.kubeconfig)], ""
        )

    def _run(self, command: list[str], given: str) -> str:
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}\n{self.story()}"
        return done.stdout

    def apply(self, *objects: Raw) -> str:
        """Apply objects and return what kubectl says."""
        return self.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(objects))

    def get(self, *words: str) -> Raw:
        """Return one object, or a list of them."""
        found: Raw = yaml.safe_load(self.kubectl("get", "-o", "yaml", *words))
        return found

    def rolled_out(self) -> None:
        """Wait until all pods of Lanloom are ready."""
        for name in ("deployment/lanloom-manager", "daemonset/lanloom-agent", "daemonset/lanloom-lan"):
            self.kubectl("-n", "lanloom-system", "rollout", "status", name, f"--timeout={ROLLOUT}")

    def restarted(self) -> None:
        """Restart all pods of Lanloom, as an administrator does, and wait."""
        for name in ("deployment/lanloom-manager", "daemonset/lanloom-agent", "daemonset/lanloom-lan"):
            self.kubectl("-n", "lanloom-system", "rollout", "restart", name)
        self.rolled_out()

    def story(self) -> str:
        """Return what the cluster looks like, for a failure."""
        texts = [
            subprocess.run([*self._kubectl, *words], capture_output=True, text=True, check=False).stdout
            for words in (("get", "pods", "-A", "-o", "wide"), ("get", "events", "-A"))
        ]
        logs = [
            f"{each.name} {path.parent.parent.name}: …{path.read_text(errors='replace')[-1500:]}"
            for each in self.nodes.values()
            for path in sorted(each.node.enclosure.root("/var/log/pods").glob("lanloom*/*/*.log"))
        ]
        kubelets = [f"{each.name} kubelet: …{each.node.log('kubelet', 1500)}" for each in self.nodes.values()]
        return "\n".join([*(text[-4000:] for text in texts), *logs, *kubelets])


@contextmanager
def real_cluster(
    binaries: Path, programs: NodePrograms, directory: Path, family: Family = IPV4
) -> Iterator[RealCluster]:
    """Start a cluster of one IP version with the image loaded onto its nodes, and nothing installed."""
    archive = build(default_cache(), "amd64", EPOCH, print).archive
    with ExitStack() as stack:
        egress = stack.enter_context(Egress(directory / "egress"))
        server = stack.enter_context(RealServer(binaries, CONTROLLERS, directory / "egress", family))
        made: list[RealNode] = []
        for name, (pods, _) in PLACES[family].items():
            network = with_nads(bridged(pods))
            node = stack.enter_context(RealNode(name, programs, server.kubeconfig, directory, network))
            node.write("/run/node/lanloom.tar", archive)
            node.ctr("images", "import", "/run/node/lanloom.tar")
            egress.ways[ip_network(pods)] = node.enclosure.network
            made.append(node)
        connect(made[0].enclosure, made[1].enclosure)
        one, other = (ChartNode(node, PLACES[family][node.name][1]) for node in made)
        stack.enter_context(Scheduler(server.kubeconfig))
        yield RealCluster(server, binaries, one, other)
