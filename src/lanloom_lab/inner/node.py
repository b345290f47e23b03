"""A node: namespaces with a root of their own, three NICs, and the programs of a cluster's node.

Files that a real node keeps on its disk are bound from the lab's state directory. All other files are an overlay in
memory, which is lost when the node is powered off.
"""

import asyncio
import hashlib
import shutil
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

from lanloom_lab import protocol
from lanloom_lab.errors import ProcessFailed
from lanloom_lab.inner.sandbox import (
    NamespaceSandbox,
    Program,
    run,
    succeeds,
)
from lanloom_lab.plan import (
    AGENT_PORT,
    CNI_CONFIGURATIONS,
    DEVICE_PLUGINS,
    MANAGEMENT_VLAN,
    MIGRATIONS,
    SUPERVISOR_ADDRESS,
    UPLINK_NICS,
    NodeSpec,
)
from lanloom_lab.processes import tail, until, until_done

KEPT = {
    "NetworkManager": "/etc/NetworkManager",
    "leases": "/var/lib/NetworkManager",
    "lanloom": "/var/lib/lanloom",
    "config": "/etc/lanloom",
}
"""Directory of the node in the lab's state → where the node sees it. These survive a reboot."""

CNI_PROGRAMS = "/opt/cni/bin"
"""Where the agent puts the CNI plugin, and a container runtime would look for it."""

PROFILES = "NetworkManager/system-connections"

NODE_ENVIRONMENT = {
    "KUBECONFIG": "/etc/lanloom/kubeconfig",
    "PYTHONPATH": "/opt/lanloom/src:/opt/lanloom/site",
    "PYTHONDONTWRITEBYTECODE": "1",
}

NETWORK_MANAGER_CONF = f"""\
[main]
plugins=keyfile
auth-polkit=root-only
dns=none
rc-manager=unmanaged
hostname-mode=none
no-auto-default=*

[keyfile]
unmanaged-devices=interface-name:eth*;interface-name:veth*;interface-name:*-br;interface-name:*-bo;interface-name:mgmt-br.{MANAGEMENT_VLAN}

[connectivity]
enabled=false
"""

START_TIMEOUT = 60.0


class Node:
    """One running node."""

    def __init__(self, spec: NodeSpec, sandbox: NamespaceSandbox, logs: Path) -> None:
        self.spec = spec
        self.sandbox = sandbox
        self._logs = logs
        self._programs: list[Program] = []

    def report(self) -> tuple[protocol.Program, ...]:
        """Return the state of its programs."""
        return tuple(program.report() for program in self._programs)

    def run(self, name: str, *words: str) -> None:
        """Keep a program running on this node, with its output in a log file of that name."""
        log = self._logs / f"{name}.log"
        self._programs.append(Program(name, self.sandbox, words, log, NODE_ENVIRONMENT))

    async def start_programs(self) -> None:
        """Start the message bus, NetworkManager and the agent, and wait until NetworkManager is ready."""
        self.sandbox.inside("/run/dbus").mkdir()
        self.sandbox.inside(DEVICE_PLUGINS).mkdir(parents=True, exist_ok=True)
        self.run("dbus", "dbus-daemon", "--system", "--nofork", "--nopidfile", "--nosyslog")
        await self._wait_for("dbus", until(self.sandbox.inside("/run/dbus/system_bus_socket").exists))
        self.run("NetworkManager", "NetworkManager", "--debug", "--log-level=INFO")
        name = self.spec.name
        access = ("--kubeconfig", NODE_ENVIRONMENT["KUBECONFIG"])
        kubelet = (
            "--cni-bin",
            CNI_PROGRAMS,
            "--device-plugins",
            DEVICE_PLUGINS,
            "--guest-dhcp",
            "--pod-namespaces",
            "/run/netns",
            "--cni-config",
            CNI_CONFIGURATIONS,
        )
        shown = ("127.0.0.1", self.spec.address)
        metrics = (word for host in shown for word in ("--metrics-address", f"{host}:{AGENT_PORT}"))
        self.run("agent", "lanloom", "agent", "--node", name, *access, *kubelet, *metrics)
        await self._wait_for("NetworkManager", until_done(self._network_manager_answers, 0.2))

    async def _network_manager_answers(self) -> bool:
        return await succeeds(*self.sandbox.command("nmcli", "general", "status"))

    async def _wait_for(self, program: str, work: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await work
        except TimeoutError:
            log = tail(self._logs / f"{program}.log")
            raise ProcessFailed(
                f"{program} of {self.spec.name} does not start", f"The end of its log:\n{log}"
            ) from None

    async def power_off(self) -> None:
        """Power the node off: disconnect its links, then end all of its processes at once."""
        # The peer of a NIC that was deleted on the node is gone already.
        ports = "".join(f"link delete {self.spec.port(nic)}\n" for nic in _NICS)
        with suppress(ProcessFailed):
            await run("ip", "-force", "-batch", "-", text=ports)
        await self.sandbox.kill()
        for program in self._programs:
            await program.end()
        shutil.rmtree(_scratch(self.spec), ignore_errors=True)


_NICS = ("eth0", *UPLINK_NICS)


async def start(spec: NodeSpec, disk: Path) -> Node:
    """Return a node with its kept directories in `disk`, connected and with running programs. Raises ProcessFailed."""
    logs = disk / "log"
    _prepare_disk(disk)
    scratch = _prepare_scratch(spec, disk)
    environment = {
        "LAB_NAME": spec.name,
        "LAB_ADDRESS": spec.address,
        "LAB_GATEWAY": SUPERVISOR_ADDRESS,
        "LAB_VLAN": str(MANAGEMENT_VLAN),
        "LAB_ROOT": str(scratch / "root"),
        "LAB_FSTAB": str(scratch / "fstab"),
    }
    sandbox = await NamespaceSandbox.start("node.sh", environment, logs / "node.log")
    node = Node(spec, sandbox, logs)
    try:
        await plug_in(spec, sandbox)
        await sandbox.proceed()
        await node.start_programs()
    except BaseException:
        await node.power_off()
        raise
    return node


async def plug_in(spec: NodeSpec, sandbox: NamespaceSandbox) -> None:
    """Connect eth0 to a trunk port of the management switch, and the uplink NICs to trunk ports of the switch."""
    links = []
    for nic in _NICS:
        port, master = spec.port(nic), "mgmt" if nic == "eth0" else "switch"
        links.append(
            f"link add {port} type veth peer name {nic} address {spec.mac(nic)} netns {sandbox.pid}\n"
            f"link set {port} master {master} up\n"
        )
    await run("ip", "-batch", "-", text="".join(links))
    trunks = "".join(f"vlan add vid 2-4094 dev {spec.port(nic)}\n" for nic in _NICS)
    await run("bridge", "-batch", "-", text=trunks)


def _prepare_disk(disk: Path) -> None:
    for directory in (*KEPT, "log", PROFILES):
        (disk / directory).mkdir(parents=True, exist_ok=True)
    conf = disk / "NetworkManager/NetworkManager.conf"
    if not conf.exists():
        conf.write_text(NETWORK_MANAGER_CONF)


def _scratch(spec: NodeSpec) -> Path:
    return Path("/run/nodes") / spec.name


def _prepare_scratch(spec: NodeSpec, disk: Path) -> Path:
    """Prepare the node's part of the inner side's memory: the layers of its root, and the list of its mounts."""
    scratch = _scratch(spec)
    upper = scratch / "upper"
    programs = ("/opt/lanloom/src", "/opt/lanloom/site", "/opt/lanloom/guests")
    inside = ("/etc", "/usr/local/bin", *programs, *KEPT.values())
    for directory in (
        MIGRATIONS,
        scratch / "root",
        scratch / "work",
        *(Path(f"{upper}{path}") for path in inside),
    ):
        directory.mkdir(parents=True, exist_ok=True)
    (upper / "etc/machine-id").write_text(f"{hashlib.sha256(spec.name.encode()).hexdigest()[:32]}\n")
    (upper / "etc/hostname").write_text(f"{spec.name}\n")
    command = upper / "usr/local/bin/lanloom"
    command.write_text('#!/bin/sh\nexec python3 -m lanloom "$@"\n')
    command.chmod(0o755)
    (scratch / "fstab").write_text(_fstab(scratch, disk))
    return scratch


def _fstab(scratch: Path, disk: Path) -> str:
    """Return the mounts of a node's root.

    The directory of profiles is a mount of its own: user-mode Linux drops a directory of the host that is not in use,
    and its watches with it.

    /sys is read-only: if it is writable, NetworkManager waits for udev, which no node has, and manages no device after
    a restart.
    """
    root = scratch / "root"
    layers = f"lowerdir=/,upperdir={scratch}/upper,workdir={scratch}/work"
    binds = [
        *((disk / name, path, "bind") for name, path in KEPT.items()),
        (disk / PROFILES, f"/etc/{PROFILES}", "bind"),
        (Path("/mnt/src"), "/opt/lanloom/src", "bind,ro"),
        (Path("/mnt/site"), "/opt/lanloom/site", "bind,ro"),
        (Path("/mnt/guests"), "/opt/lanloom/guests", "bind,ro"),
        (MIGRATIONS, str(MIGRATIONS), "bind,X-mount.mkdir"),
        (Path("/dev"), "/dev", "rbind"),
    ]
    return (
        f"overlay {root} overlay {layers}\n"
        f"proc {root}/proc proc defaults\n"
        f"sysfs {root}/sys sysfs ro\n"
        f"tmpfs {root}/run tmpfs mode=755\n"
        f"tmpfs {root}/tmp tmpfs mode=1777\n"
    ) + "".join(f"{source} {root}{target} none {options}\n" for source, target, options in binds)
