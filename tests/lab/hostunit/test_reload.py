"""The unit's script on a node with a real NetworkManager and no agent."""

import subprocess

import pytest

from tests.lab.hostunit.host import (
    BRIDGE,
    LANLOOM,
    MANY,
    SCRIPT,
    HostNode,
    address,
    content,
    name,
)
from tests.node.contract.profile import profile, static
from tests.node.contract.real import Machine

FOREIGN = (
    "[connection]\nid=theirs\nuuid=11111111-0000-4000-8000-000000000001\ntype=dummy\ninterface-name=theirs\n"
)


@pytest.fixture
def node(machine: Machine) -> HostNode:
    """The node, clean."""
    node = HostNode(machine)
    node.prepare()
    return node


@pytest.mark.timeout(1100)
def test_a_burst_of_files(node: HostNode) -> None:
    """Many profiles that come at once all get active, edits of all are applied, and without files all devices go."""
    watcher = node.start(*LANLOOM, "host", "watch")
    try:
        for number in range(MANY):
            node.put(name(number), content(number))
        node.until_addresses(range(MANY))
        for number in range(MANY):
            node.put(name(number), content(number, host=2))
        node.until_addresses(range(MANY), host=2)
        for number in range(MANY):
            node.remove(name(number))
        node.until(lambda: not node.devices())
    finally:
        watcher.terminate()
        assert watcher.wait(120) == 0, watcher.communicate()[0]


def test_a_run_without_changes_tells_nothing(node: HostNode) -> None:
    """The second run says nothing, because nothing changed."""
    node.put(name(1), content(1))
    assert "1 new, 0 edited and 0 removed" in node.reload()
    node.until_addresses([1])
    assert node.reload() == ""


def test_an_edit_is_reapplied_in_place(node: HostNode) -> None:
    """A new address comes on the same device."""
    node.put(name(1), content(1))
    node.reload()
    node.until_addresses([1])
    index = node.run("cat", f"/sys/class/net/{BRIDGE}.101/ifindex")
    node.put(name(1), content(1, host=9))
    assert f"reapplied to {BRIDGE}.101" in node.reload()
    node.until_addresses([1], host=9)
    assert node.run("cat", f"/sys/class/net/{BRIDGE}.101/ifindex") == index


def test_an_edit_keeps_the_addresses_of_others(node: HostNode) -> None:
    """An address that another program put on the device is there after an edit of the profile, as with an agent."""
    vip = "10.7.1.100/32"
    node.put(name(1), content(1))
    node.reload()
    node.until_addresses([1])
    node.run("ip", "address", "add", vip, "dev", f"{BRIDGE}.101")
    route = "route1=10.99.0.0/16,10.7.1.254"
    node.put(name(1), content(1).replace(b"\n\n[ipv6]", f"\n{route}\n\n[ipv6]".encode()))
    assert f"reapplied to {BRIDGE}.101" in node.reload()
    node.until(lambda: "10.99.0.0/16" in node.run("ip", "route", "show", "dev", f"{BRIDGE}.101"))
    assert vip.removesuffix("/32") in node.run("ip", "address", "show", "dev", f"{BRIDGE}.101")


def test_an_edit_keeps_the_ipv6_address(node: HostNode) -> None:
    """A profile with an address of IPv6 has it after an edit, too."""
    ipv4, six = static(address(1), dad_timeout=0), "method=manual\naddress1=fd00:7::1/64"
    node.put(name(1), profile(1, vid=101, ipv4=ipv4, ipv6=six))
    node.reload()

    def shown() -> str:
        return node.run("ip", "address", "show", "dev", f"{BRIDGE}.101")

    node.until_addresses([1])
    node.until(lambda: "fd00:7::1/64" in shown())
    node.put(name(1), profile(1, vid=101, ipv4=static(address(1, 2), dad_timeout=0), ipv6=six))
    assert f"reapplied to {BRIDGE}.101" in node.reload()
    node.until_addresses([1], host=2)
    node.until(lambda: "fd00:7::1/64" in shown())


def test_an_edit_that_takes_a_gateway_away(node: HostNode) -> None:
    """The routes of a gateway go from its table with it."""
    gateway = b"\nroute1=0.0.0.0/0,10.7.1.254\nroute1_options=table=1101\n\n[ipv6]"
    node.put(name(1), content(1).replace(b"\n\n[ipv6]", gateway))
    node.reload()
    node.until_addresses([1])

    def table() -> str:
        return node.run("ip", "route", "show", "table", "all", "dev", f"{BRIDGE}.101")

    node.until(lambda: "table 1101" in table())
    node.put(name(1), content(1))
    node.reload()
    node.until(lambda: "table 1101" not in table())
    node.until_addresses([1])


def test_an_edit_from_static_to_dhcp(node: HostNode) -> None:
    """A change of the method is applied: the static address goes, a lease comes."""
    node.put("c-vlan2012.nmconnection", profile(1, ipv4=static("10.7.1.1/24", dad_timeout=0)))
    node.reload()
    node.until(lambda: node.addresses() == {f"{BRIDGE}.2012": "10.7.1.1/24"})
    node.put("c-vlan2012.nmconnection", profile(1))
    node.reload()
    node.until(lambda: node.addresses().get(f"{BRIDGE}.2012", "").startswith("192.168.12."))


def test_an_edit_that_can_not_be_reapplied(node: HostNode) -> None:
    """Another VLAN id and name in the file: the profile is activated again, and the old device goes."""
    node.put(name(1), content(1))
    node.reload()
    node.until_addresses([1])
    node.put(name(1), profile(1, vid=102, ipv4=static(address(2), dad_timeout=0)))
    assert "activated anew" in node.reload()
    node.until(lambda: node.addresses() == {f"{BRIDGE}.102": address(2)})


def test_a_removed_file_takes_its_device_along(node: HostNode) -> None:
    """Without its file a profile is forgotten and its device deleted; the others stay."""
    for number in (1, 2):
        node.put(name(number), content(number))
    node.reload()
    node.until_addresses([1, 2])
    node.remove(name(1))
    node.reload()
    node.until_addresses([2])
    node.until(lambda: node.devices() == {f"{BRIDGE}.102"})


def test_a_file_that_went_while_network_manager_was_away(node: HostNode) -> None:
    """A device that NetworkManager no longer knows as its own goes too."""
    node.put(name(1), content(1))
    node.reload()
    node.until_addresses([1])
    node.stop_network_manager()
    node.remove(name(1))
    node.start_network_manager()
    node.until(node.answers)
    node.reload()
    node.until(lambda: not node.devices())


def test_without_network_manager_it_is_told_later(node: HostNode) -> None:
    """While NetworkManager is away a run fails and forgets nothing: the next one tells it."""
    node.put(name(1), content(1))
    node.reload()
    node.until_addresses([1])
    node.stop_network_manager()
    node.put(name(1), content(1, host=2))
    assert "does not run" in node.reload(status=1)
    node.start_network_manager()
    node.until(node.answers)
    node.reload()
    node.until_addresses([1], host=2)


HOSTILE = [
    b"a b.nmconnection",
    b"-rf.nmconnection",
    b"--help.nmconnection",
    b"$(touch canary).nmconnection",
    b"`touch canary`.nmconnection",
    b"a;touch canary;.nmconnection",
    b"quote\"'.nmconnection",
    b"new\nline.nmconnection",
    b"*.nmconnection",
    b"[a-z].nmconnection",
    b"\xff\xfe.nmconnection",
    b"x" * 242 + b".nmconnection",
    b"..nmconnection",
    b"x.nmconnection\n",
    b"x.nmconnection.bak",
    b"\\.nmconnection",
]


def test_hostile_names_do_nothing(node: HostNode) -> None:
    """Files with names that Lanloom never gives are not loaded, run nothing, and don't hold up a good one."""
    for number, hostile in enumerate(HOSTILE):
        node.put(hostile, content(number + 10))
    node.put(name(1), content(1))
    assert "1 new, 0 edited and 0 removed" in node.reload()
    node.until_addresses([1])
    assert node.known() & {f"test-{number + 10}" for number in range(len(HOSTILE))} == set()
    assert node.run("find", "/", "-xdev", "-name", "canary") == ""


def test_odd_files_do_nothing(node: HostNode) -> None:
    """A directory, a link, a pipe and files without a usable profile in them harm nothing."""
    target = node.directory / "target"
    target.write_bytes(content(2))
    (node.directory / "link.nmconnection").symlink_to("target")
    (node.directory / "directory.nmconnection").mkdir()
    node.run("mkfifo", "/etc/NetworkManager/system-connections/pipe.nmconnection")
    node.put("empty.nmconnection", b"")
    node.put("binary.nmconnection", bytes(range(256)) * 64)
    node.put("nouuid.nmconnection", b"[user]\nlanloom.owner=c/1\n")
    node.put(name(1), content(1))
    node.reload()
    node.until_addresses([1])
    assert node.reload() == ""
    (node.directory / "directory.nmconnection").rmdir()


def test_foreign_profiles_are_left_alone(node: HostNode) -> None:
    """A profile without the mark is neither loaded, nor applied when it changes, nor taken away."""
    node.put("theirs.nmconnection", FOREIGN.encode())
    assert node.reload() == ""
    assert "theirs" not in node.known()
    node.run("nmcli", "connection", "load", "/etc/NetworkManager/system-connections/theirs.nmconnection")
    node.remove("theirs.nmconnection")
    assert node.reload() == ""
    assert "theirs" in node.known()
    node.run("nmcli", "connection", "reload")


def test_who_takes_the_mark_off_takes_it_over(node: HostNode) -> None:
    """A profile whose mark went is no longer Lanloom's: its edits and its end are not reported."""
    node.put(name(1), content(1))
    node.reload()
    node.until_addresses([1])
    node.put(name(1), content(1, host=2).replace(b"lanloom.owner", b"my.owner"))
    assert node.reload() == ""
    node.remove(name(1))
    assert node.reload() == ""
    assert node.addresses() == {f"{BRIDGE}.101": address(1)}


def test_two_runs_at_once(node: HostNode) -> None:
    """Runs that begin together tell of each profile once."""
    for number in range(10):
        node.put(name(number), content(number))
    runs = [node.start(str(SCRIPT)) for _ in range(4)]
    said = [run.communicate(timeout=200)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0, 0]
    assert sorted(bool(text) for text in said) == [False, False, False, True]
    node.until_addresses(range(10))


def test_a_killed_run_is_made_up_for(node: HostNode) -> None:
    """What a run did not come to, because it was killed, the next one does."""
    for number in range(5):
        node.put(name(number), content(number))
    node.reload()
    node.until_addresses(range(5))
    for number in range(5):
        node.put(name(number), content(number, host=2))
    run = node.start(str(SCRIPT))
    with pytest.raises(subprocess.TimeoutExpired):
        run.wait(0.15)
    run.kill()
    run.communicate()
    node.reload()
    node.until_addresses(range(5), host=2)
