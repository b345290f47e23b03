"""A guest's hardware: what QEMU is started with, and what stays the same when the guest moves to another node.

A NIC is `nicSLOT` for QEMU, whatever the machine calls its network: QEMU's names have a syntax of their own.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from lanloom_lab.guests.assets import GuestAssets

MEMORY_MIB = 96
"""Of a guest: the kernel, the initramfs and their page tables."""

FIRST_SLOT, LAST_SLOT = 4, 31
"""PCI slots of NICs; those before are the chipset's and what QEMU adds by itself."""

DEFAULT_MTU = 1500
"""Of a NIC without an interface in the pod."""

ADDRESS_PARAMETER = "guest_address"

KERNEL_PARAMETERS = "console=ttyS0 quiet panic=-1 no_timer_check cryptomgr.notests"
"""The beginning of each guest's kernel command line.

At its start a kernel counts the ticks of its timer. An emulated one on a busy machine sees too few, and would panic. It
also tests its ciphers, which takes a seventh of the boot.
"""


class Nic(Struct, frozen=True, kw_only=True):
    """A NIC. `name` is the machine's own of the network, `link` the interface in the pod; empty where there is none.

    `mtu` is 0 until that of the interface is known. `address` is a CIDR that the guest gives itself at its boot, or
    empty.
    """

    name: str
    mac: str
    slot: int
    link: str = ""
    mtu: int = 0
    up: bool = True
    address: str = ""

    @property
    def id(self) -> str:
        """The device's name for QEMU."""
        return f"nic{self.slot}"


class Domain(Struct, frozen=True, kw_only=True):
    """A guest's hardware. `memory` is the file of its memory, in a directory that all nodes share."""

    name: str
    memory: str
    nics: tuple[Nic, ...] = ()
    memory_mib: int = MEMORY_MIB

    def nic(self, name: str) -> Nic | None:
        """Return the NIC of a network."""
        return next((nic for nic in self.nics if nic.name == name), None)

    def with_nic(self, nic: Nic) -> "Domain":
        """Return the domain with another NIC, or in place of the one of the same name."""
        return structs.replace(self, nics=(*(item for item in self.nics if item.name != nic.name), nic))

    def with_mtus(self, mtus: Mapping[str, int]) -> "Domain":
        """Return the domain with the MTUs of the interfaces in its pod, by their names, for NICs without one.

        A NIC keeps what it started with, as with libvirt: it goes along with a guest that moves to another pod.
        """
        nics = (structs.replace(nic, mtu=nic.mtu or mtus.get(nic.link, DEFAULT_MTU)) for nic in self.nics)
        return structs.replace(self, nics=tuple(nics))

    def changed(self, name: str, *, up: bool) -> "Domain":
        """Return the domain with another link state of a NIC."""
        nics = (structs.replace(nic, up=up) if nic.name == name else nic for nic in self.nics)
        return structs.replace(self, nics=tuple(nics))

    def without(self, name: str) -> "Domain":
        """Return the domain without the NIC of a network."""
        return structs.replace(self, nics=tuple(nic for nic in self.nics if nic.name != name))


def free_slot(nics: Iterable[Nic]) -> int:
    """Return the lowest PCI slot without a NIC. Raises ValueError where all are taken."""
    taken = {nic.slot for nic in nics}
    free = next((slot for slot in range(FIRST_SLOT, LAST_SLOT + 1) if slot not in taken), None)
    if free is None:
        raise ValueError(f"a machine has at most {LAST_SLOT + 1 - FIRST_SLOT} NICs")
    return free


def device(nic: Nic) -> dict[str, object]:
    """Return a NIC as QEMU's `device_add` takes it. `host_mtu` is not changed by a move to another network."""
    backend = {"netdev": f"{nic.id}-tap"} if nic.link else {}
    return {
        "driver": "virtio-net-pci",
        "id": nic.id,
        "mac": nic.mac,
        "addr": f"{nic.slot:#x}",
        "host_mtu": nic.mtu or DEFAULT_MTU,
        "romfile": "",
        **backend,
    }


def command(
    assets: GuestAssets, domain: Domain, taps: Mapping[str, int], qmp: int, *, incoming: bool
) -> tuple[str, ...]:
    """Return the words that start QEMU, with its serial console on standard input and output.

    `taps` are descriptors of open taps by the NICs' names, `qmp` is that of a connected socket. With `incoming` QEMU
    waits for the guest from another one.
    """
    words = [
        *assets.qemu,
        *("-name", domain.name, "-machine", "pc,memory-backend=ram", "-accel", "tcg"),
        *("-m", str(domain.memory_mib), "-object", _memory(domain)),
        *("-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio", "-monitor", "none"),
        *("-chardev", f"socket,id=qmp,fd={qmp}", "-mon", "chardev=qmp,mode=control"),
        *("-kernel", str(assets.kernel), "-initrd", str(assets.initramfs)),
        *("-append", " ".join((KERNEL_PARAMETERS, *_addresses(domain)))),
    ]
    for nic in domain.nics:
        if nic.link:
            words += ["-netdev", f"tap,id={nic.id}-tap,fd={taps[nic.name]}"]
        words += ["-device", ",".join(_option(*item) for item in device(nic).items())]
    return (*words, "-incoming", "defer") if incoming else tuple(words)


def _memory(domain: Domain) -> str:
    return f"memory-backend-file,id=ram,size={domain.memory_mib}M,mem-path={domain.memory},share=on"


def _option(name: str, value: object) -> str:
    return str(value) if name == "driver" else f"{name}={value}"


def _addresses(domain: Domain) -> Iterable[str]:
    # The guest's kernel numbers its interfaces by their slots.
    for number, nic in enumerate(sorted(domain.nics, key=lambda item: item.slot)):
        if nic.address:
            yield f"{ADDRESS_PARAMETER}_eth{number}={nic.address}"
