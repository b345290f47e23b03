"""Options of LANs on a real kernel under damage: what enforces them comes back, and what can't be is said."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from lanloom.features.lan.agent.links.optionsteps import PORTS, TABLE
from lanloom.features.lan.agent.ports import SpokeError
from lanloom.node.namespaces import open_namespace
from lanloom.node.netlink.packetfilter import DAMAGED, open_filter_socket, owners, remove_table
from tests.features.lan.kernel.machines import Lab, Machine, frame, lab, played, reaches, run, until
from tests.features.lan.kernel.test_options import (
    BROADCAST,
    Probe,
    address,
    patch,
    wires,
)
from tests.features.lan.kernel.test_traffic import FOREIGN, joined


def fixed(machine: Machine) -> list[str]:
    """The forwarding entries that stay."""
    lines = run(machine.lan(), "bridge fdb show").splitlines()
    return sorted(line for line in lines if "sticky" in line or (" dst " in line and "permanent" in line))


def remove_filter(where: Path) -> None:
    """An operator removes the packet filters."""
    with open_namespace(where) as space, space.call(open_filter_socket) as sock:
        for name in (TABLE, PORTS):
            remove_table(sock, name)


def is_sound(made: Lab) -> bool:
    """Whether both nodes have their packet filter, and the second one its isolated port."""
    for machine in made.machines:
        with open_namespace(machine.lan()) as space, space.call(open_filter_socket) as sock:
            found = owners(sock)
            if any(found.get(name, "") in ("", DAMAGED) for name in (TABLE, PORTS)):
                return False
    flags = run(made[1].lan(), "bridge -d link show dev blue-bV0")
    group = run(made[1].lan(), "ip -d link show dev blue-bV0")
    return (
        "isolated on" in flags
        and "group 6721" in group
        and "gbp" in run(made[1].lan(), "ip -d link", check=False)
    )


@played(2)
async def test_damaged_port_security(made: Lab) -> None:
    """A port that is unlocked is locked again, and entries that are deleted or added are as they were."""
    await made.cluster.lan(spokeOptions={"blue-a": {"portSecurity": True}})
    for machine in made.machines:
        await machine.offers()
    await made[0].attach("blue-a", "p")
    await made[1].attach("blue-b", "q")
    await joined(made)
    own = address(made[0], "p")

    def is_pinned() -> bool:
        """In the bridge and in the VXLAN link: these are two requests."""
        lines = [line for line in fixed(made[1]) if own in line]
        return any("sticky" in line for line in lines) and any(" dst " in line for line in lines)

    await until(is_pinned)
    before = [fixed(machine) for machine in made.machines]
    for machine, command in (
        (made[0], "bridge link set dev blue-aV0 locked off learning on"),
        (made[0], f"bridge fdb delete {own} dev blue-aV0 master"),
        (made[0], f"bridge fdb add {FOREIGN} dev blue-aV0 master static sticky"),
        (made[0], "ip link set blue-aV0 nomaster"),
        (made[1], f"bridge fdb delete {own} dev vx0 master"),
        (made[1], f"bridge fdb delete {own} dev vx0 self"),
        (made[1], "ip link delete vx0"),
    ):
        await asyncio.to_thread(run, machine.lan(), command)

        machine.look()

        def whole() -> bool:
            flags = run(made[0].lan(), "bridge -d link show dev blue-aV0")
            return [fixed(each) for each in made.machines] == before and "locked on" in flags

        await until(whole)
    probe = Probe()
    with wires((made[0], "p"), (made[1], "q")) as (sender, receiver):
        witness = partial(probe.passes, sender, receiver, own)
        await witness()
        await probe.is_stopped(sender, receiver, FOREIGN, witness=witness)


@played(2)
async def test_damaged_isolation(made: Lab) -> None:
    """Isolated spokes stay apart when the packet filter, a port's flags or the VXLAN link are made again."""
    await made.cluster.lan(spokeOptions={f"blue-{each}": {"isolated": True} for each in "ab"})
    for machine in made.machines:
        await machine.offers()
    await made[0].attach("blue-a", "p")
    await made[1].attach("blue-b", "q")
    await made[1].attach("blue-c", "open")
    await joined(made)
    probe = Probe()
    with wires((made[0], "p"), (made[1], "q"), (made[1], "open")) as (first, second, free):
        for command in (
            "",
            "ip link delete vx0",
            "bridge link set dev blue-bV0 isolated off",
            "ip link set blue-bV0 group default",
        ):
            if command:
                await asyncio.to_thread(run, made[1].lan(), command)
            else:
                for machine in made.machines:
                    await asyncio.to_thread(remove_filter, machine.lan())
            for machine in made.machines:
                machine.look()
            await until(partial(is_sound, made))
            await probe.passes(first, free, FOREIGN)
            witness = partial(probe.passes, free, second, "0e:00:00:00:00:14")
            await probe.is_stopped(first, second, FOREIGN, witness=witness)


@pytest.mark.parametrize("isolates", [False, True])
async def test_somebody_elses_vxlan(tmp_path: Path, isolates: bool) -> None:
    """Next to a VXLAN link that takes no marks along, a LAN without isolation works; one with it says why."""
    async with lab(tmp_path, 2) as made:
        for machine in made.machines:
            await asyncio.to_thread(
                run, machine.host, "ip link add other0 type vxlan id 99 dstport 4789 dev u0"
            )
            await asyncio.to_thread(run, machine.host, "ip link set other0 up")
        await made.cluster.lan(spokeOptions={"blue-d": {"isolated": isolates}})
        for number, machine in enumerate(made.machines, 1):
            await machine.offers()
            if isolates:
                with pytest.raises(SpokeError, match="which isolated spokes need; recreate the LAN with"):
                    await machine.attach(f"blue-{'ab'[number - 1]}", "p")
            else:
                await machine.attach(f"blue-{'ab'[number - 1]}", "p", f"172.16.0.{number}/24")
        if not isolates:
            await joined(made)
            await until(partial(reaches, made[0].pods.path("p"), "172.16.0.2"))
            await patch(made, spokeOptions={"blue-d": {"isolated": True}})
            await until(lambda: "group policy extension" in made[0].entries()[0].message)
            assert not made[0].entries()[0].ready
            await patch(made, spokeOptions=None)
            await joined(made)
            await until(partial(reaches, made[0].pods.path("p"), "172.16.0.2"))


@played(2)
async def test_marks_of_others(made: Lab) -> None:
    """A process of a machine's own node that marks its frames changes nothing about who hears them."""
    await made.cluster.lan(spokeOptions={"blue-c": {"isolated": True}})
    for machine in made.machines:
        await machine.offers()
    await made[0].attach("blue-a", "vm", mode="macvtap")
    await made[1].attach("blue-c", "alone")
    await joined(made)
    probe = Probe()
    with wires((made[0], "vm"), (made[1], "alone")) as (sender, receiver):
        sender.mark(0x4C4C)
        await probe.passes(sender, receiver, FOREIGN)
        sender.send(frame(BROADCAST, FOREIGN, b"marked"))


@played(2)
async def test_marks_come_later(made: Lab) -> None:
    """VXLAN links with and without marks carry the same frames but marked ones, which a link without marks drops.

    The first isolated spoke replaces what takes no marks along, the VXLAN link, and nothing else.
    """
    old, new = made.machines
    await asyncio.to_thread(run, old.host, "ip link add other0 up type vxlan id 99 dstport 4789 dev u0")
    await made.cluster.lan()
    for machine in made.machines:
        await machine.offers()
    await old.attach("blue-a", "a", "172.16.0.1/24")
    await new.attach("blue-b", "b", "172.16.0.2/24")
    await new.attach("blue-c", "c", "172.16.0.3/24")
    await joined(made)
    assert [takes_marks(machine) for machine in made.machines] == [False, True]
    for pod in "bc":
        await until(partial(reaches, new.pods.path(pod), "172.16.0.1"))
    before = indices(old)
    await old.kill()
    await patch(made, spokeOptions={"blue-b": {"isolated": True}})
    await until(lambda: "isolated on" in run(new.lan(), "bridge -d link show dev blue-bV0"))
    await until(lambda: not reaches(new.pods.path("b"), "172.16.0.1"))
    assert await asyncio.to_thread(reaches, new.pods.path("c"), "172.16.0.1", 10)
    await asyncio.to_thread(run, old.host, "ip link delete other0")
    old.start()
    await until(lambda: takes_marks(old))
    for pod in "bc":
        await until(partial(reaches, new.pods.path(pod), "172.16.0.1"))
    assert {name for name, index in indices(old).items() if before[name] != index} == {"vx0"}
    await old.floods({new.address})


def takes_marks(machine: Machine) -> bool:
    """Whether the VXLAN link has the group policy extension."""
    return "gbp" in run(machine.lan(), "ip -d link show vx0", check=False)


def indices(machine: Machine) -> dict[str, str]:
    """The indices of the LAN's links."""
    lines = run(machine.lan(), "ip -o link").splitlines()
    return {line.split(": ")[1].split("@")[0]: line.split(": ")[0] for line in lines}
