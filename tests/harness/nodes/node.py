"""A real node: containerd and kubelet in an enclosure, joined to an API server on the host's loopback address."""

import json
import os
import shlex
import shutil
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.harness.nodes.enclosure import Enclosure, EnclosureError, python
from tests.harness.nodes.programs import PAUSE_IMAGE, NodePrograms, write_images
from tests.harness.nodes.relay import Relay
from tests.harness.servers.family import family_of
from tests.harness.servers.real import knows

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
KUBECONFIG = "/run/node/kubeconfig"
CNI_CONFIGURATIONS = "/run/cni/net.d"
CNI_PLUGINS = "/opt/cni/bin"
DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins"

CONTAINERD_CONFIGURATION = f"""
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Machines for tests may lack CAP_SYS_RESOURCE; every sandbox would fail.
  restrict_oom_score_adj = true
  disable_tcp_service = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{CNI_CONFIGURATIONS}"
    # All of them, and not the first one alone.
    max_conf_num = 0
"""

NETWORKS_PROGRAM = "meta"
MULTUS = os.environ.get("MULTUS", "")


def with_nads(network: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration list that attaches pods to a cluster network, and to the NADs that they name.

    Multus itself does if MULTUS names its program, and else what the tests have in its place.
    """
    plugin: dict[str, Any] = {"type": NETWORKS_PROGRAM, "kubeconfig": KUBECONFIG, "clusterNetwork": network}
    if MULTUS:
        plugin = {"type": "multus", "kubeconfig": KUBECONFIG, "delegates": [network]}
    return {"cniVersion": "0.4.0", "name": "networks", "plugins": [plugin]}


IN_CONTAINER = r"""
while IFS=: read -r _ controller group; do
    processes=/sys/fs/cgroup/$controller$group/cgroup.procs
    [ ! -e "$processes" ] || echo $$ >"$processes"
done </proc/$0/cgroup
exec nsenter --target "$0" --mount --net --pid -- "$@"
"""
"""Run with the container's first process and a command, which is held to the container's rights to devices."""

AFTER_POWER = r"""
set -e
for link in /sys/class/net/*; do
    name=$(basename $link)
    case $name in lo) ;; eth*) ip address flush dev $name; ip link set $name down ;; *) ip link delete $name ;; esac
done 2>/dev/null || true
mounted() { awk -v places="^($1)" '$5 ~ places { print $5 }' /proc/self/mountinfo | sort -r; }
for place in $(mounted '/run/(netns|containerd|lanloom|cni)|/var/lib/kubelet/|/var/lib/containerd/'); do
    umount --lazy $place 2>/dev/null || true  # gone with another one
done
rm -rf /run/netns/* /run/containerd /run/cni/ipam /run/cni/meta /run/lanloom /run/node/*.pid
"""
"""Run on a node whose processes have ended."""

PATIENCE = 180.0
"""Seconds until something has failed; all of it takes a few on an idle machine."""


def bridged(pods: str) -> dict[str, Any]:
    """Return a cluster network: CNI's own bridge plugin with addresses of a range, and the node as their gateway."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": pods}]],
        "routes": [{"dst": family_of(pods).everywhere}],
        "dataDir": "/run/cni/ipam",
    }
    plugin = {"type": "bridge", "bridge": "pods0", "isGateway": True, "ipam": ipam}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [plugin]}


BRIDGE = bridged("10.88.0.0/24")


def wait_until(holds: Callable[[], bool], complaint: Callable[[], str], seconds: float = PATIENCE) -> None:
    """Return once a condition holds; EnclosureError with the complaint if it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise EnclosureError(complaint())
        time.sleep(0.1)


class RealNode:
    """Use as a context manager.

    `kubeconfig` is an administrator's, of a server at a loopback address, whose IP version is the node's, too; pods
    reach it as the Service `kubernetes`. `network` is the CNI configuration list of the cluster's network; logs are
    written to `directory`. Once entered, containerd and kubelet run; `enclosure` runs other programs there.
    """

    def __init__(
        self,
        name: str,
        programs: NodePrograms,
        kubeconfig: Path,
        directory: Path,
        network: Mapping[str, Any] = BRIDGE,
    ) -> None:
        self.name = name
        self.enclosure = Enclosure(name, directory)
        self._programs = programs
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._network = network
        server = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        place = urllib.parse.urlsplit(server)
        self._family, self._port = family_of(place.hostname or ""), place.port or 443

    def __enter__(self) -> Self:
        self.enclosure.__enter__()
        try:
            for address in (self._family.node, self._family.kubernetes):
                # An address of IPv6 could not be listened on for a moment, for which the kernel looks for duplicates.
                self.enclosure.run("ip", "address", "add", address, "dev", "lo", "nodad")
            services = [(self._family.kubernetes, 443)]
            self._relay = Relay(self.enclosure.network, (self._family.loopback, self._port), services)
            self._relay.__enter__()
            self._write_files()
            self._start_containerd()
            self.start_kubelet()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._relay.__exit__(kind, error, traceback)
        self.enclosure.close()

    def start_kubelet(self) -> None:
        """Start kubelet; it is ready some seconds later."""
        options = {
            "address": self._family.loopback,
            "authorization-mode": "AlwaysAllow",
            "cert-dir": "/var/lib/kubelet/pki",
            "cgroup-driver": "cgroupfs",
            "container-runtime-endpoint": f"unix://{CONTAINERD_SOCKET}",
            "enforce-node-allocatable": "",
            "eviction-hard": "",
            "fail-swap-on": "false",
            "hostname-override": self.name,
            "image-gc-high-threshold": "100",
            "kubeconfig": KUBECONFIG,
            "make-iptables-util-chains": "false",
            "node-ip": self._family.node,
            "node-status-update-frequency": "1s",
            "oom-score-adj": "0",
            "read-only-port": "0",
            "resolv-conf": "",
            "volume-plugin-dir": "/var/lib/kubelet/volume-plugins",
        }
        # Before 1.27 it names its runtime; later it asks whether control groups of version 1 will do.
        of_releases = {"container-runtime": "remote", "fail-cgroupv1": "false"}
        kubelet = self._programs.kubelet
        options |= {name: value for name, value in of_releases.items() if knows(kubelet, name)}
        words = [f"--{name}={value}" for name, value in options.items()]
        self.enclosure.start("kubelet", kubelet, *words, environment=self._environment)

    def stop_kubelet(self) -> None:
        """End kubelet; its pods go on."""
        self.enclosure.stop("kubelet")

    def reboot(self, configure: Callable[[], None]) -> None:
        """End everything at once, as a loss of power does, and start containerd and kubelet on what the disk has.

        Processes, links other than the NICs, what is in /run, and mounts of pods are gone. `configure` brings up the
        node's own network.
        """
        self.enclosure.kill_all()
        self.enclosure.run("bash", "-c", AFTER_POWER)
        configure()
        self._start_containerd()
        self.start_kubelet()

    def ctr(self, *words: str) -> str:
        """Run containerd's client in Kubernetes' namespace."""
        program = self._programs.containerd / "usr/bin/ctr"
        return self.enclosure.run(program, "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io", *words)

    def exec(self, container: str, *command: str) -> str:
        """Run a command in a container (its id as in a pod's status) and return its output.

        Not by `ctr tasks exec`: it may end before it has passed on the output.
        """
        return self.enclosure.run("bash", "-c", IN_CONTAINER, str(self.pid(container)), *command)

    def pid(self, container: str) -> int:
        """Return the first process of a container, as the node numbers it; EnclosureError without one."""
        found = self.running()
        if container not in found:
            raise EnclosureError(f"{self.name}: no container {container} runs")
        return found[container]

    def running(self) -> dict[str, int]:
        """Return the containers that run, by their ids as in a pod's status, with their first processes."""
        lines = [line.split() for line in self.ctr("tasks", "ls").splitlines()[1:]]
        return {f"containerd://{words[0]}": int(words[1]) for words in lines if words[2] == "RUNNING"}

    def namespace(self, container: str) -> Path:
        """Return the file that keeps the network namespace of a container's pod; it goes after CNI's DEL."""
        own = self.enclosure.root(f"/proc/{self.pid(container)}/ns/net").stat()
        for path in self.enclosure.root("/run/netns").iterdir():
            with suppress(FileNotFoundError):  # that of another pod, which has just gone
                if path.stat().st_ino == own.st_ino:
                    return path
        raise EnclosureError(f"{self.name}: no file keeps the network namespace of {container}")

    def in_pod(self, container: str, *command: str) -> str:
        """Run a program of the node in the network namespace of a container's pod."""
        return self.enclosure.run("nsenter", f"--net=/proc/{self.pid(container)}/ns/net", *command)

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file of the node; below /run, /opt, /var/lib and /var/log it is the node's own."""
        file = self.enclosure.root(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        file.chmod(mode)

    def install_plugin(self, source: Path) -> None:
        """Copy a CNI program to where containerd finds it."""
        self.write(f"{CNI_PLUGINS}/{source.name}", source.read_bytes(), mode=0o755)

    def attach_also(self, networks: Sequence[Mapping[str, Any]]) -> None:
        """Let containerd itself attach pods to these networks, too, as `eth1` and so on."""
        for old in self.enclosure.root(CNI_CONFIGURATIONS).glob("more-*.conflist"):
            old.unlink()
        for number, network in enumerate(networks):
            self.write(f"{CNI_CONFIGURATIONS}/more-{number:03}.conflist", json.dumps(network))
        # It also watches the directory, but nothing tells when it has read it.
        self.enclosure.stop("containerd")
        self._start_containerd()

    @property
    def _environment(self) -> dict[str, str]:
        return {"PATH": self._programs.path}

    def _write_files(self) -> None:
        self.write(KUBECONFIG, self._kubeconfig.read_bytes(), mode=0o600)
        self.write("/run/node/containerd.toml", CONTAINERD_CONFIGURATION)
        for plugin in self._programs.plugins.iterdir():
            self.install_plugin(plugin)
        if MULTUS:
            self.write(f"{CNI_PLUGINS}/multus", Path(MULTUS).read_bytes(), mode=0o755)
        meta = shlex.join([*python(), "-m", "tests.harness.nodes.meta"])
        self.write(f"{CNI_PLUGINS}/{NETWORKS_PROGRAM}", f"#!/bin/sh\nexec {meta}\n", mode=0o755)
        self.write(f"{CNI_CONFIGURATIONS}/10-pods.conflist", json.dumps(self._network))
        images = self._directory / "images.tar"
        write_images(self._programs.busybox, images)
        shutil.copyfile(images, self.enclosure.root("/run/node/images.tar"))

    def _start_containerd(self) -> None:
        program = self._programs.containerd / "usr/bin/containerd"
        self.enclosure.start(
            "containerd", program, "--config", "/run/node/containerd.toml", environment=self._environment
        )
        wait_until(self._imports, lambda: f"containerd does not serve: {self.log('containerd')}")

    def _imports(self) -> bool:
        try:
            self.ctr("images", "import", "/run/node/images.tar")
        except EnclosureError:
            if not self.enclosure.is_running("containerd"):
                raise EnclosureError(f"containerd ended: {self.log('containerd')}") from None
            return False
        return True

    def log(self, program: str, characters: int = 4000) -> str:
        """Return the end of what a program has written."""
        return self.enclosure.log_file(program).read_text(errors="replace")[-characters:]
