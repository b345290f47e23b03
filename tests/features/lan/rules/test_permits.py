"""What one namespace may take of the nodes and of the cluster by its LANs."""

from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from lanloom.api.lan import DEFAULT_PORT, LAN, HostBridge
from lanloom.features.lan.options import MANAGER_OPTIONS
from lanloom.features.lan.rules.permits import SERVICES, USUAL, Permits, check_permits, group_fault
from lanloom.refusals import Denied
from tests.features.lan.samples import lan, other

REFUSED: list[tuple[dict[str, Any], str]] = [
    *(
        (
            {"vxlan_port": port},
            f"spec.vxlanPort is {port}; LANs may use 1024-29999, 32768-65535; choose another",
        )
        for port in (1, 53, 68, 546, 1023, 30_000, 32_767)
    ),
    *(({"vxlan_port": port}, f"at which nodes may have {owner}") for port, owner in SERVICES.items()),
    ({"vni": 4096}, "spec.vni is 4096, which is that of Calico at spec.vxlanPort 4789"),
    ({"vni": 1, "vxlan_port": 8472}, "flannel"),
    *(
        ({"vxlan_grp": group}, f"spec.vxlanGrp is {group}, ")
        for group in (
            *(
                "224.0.0.1",
                "224.0.0.18",
                "224.0.0.251",
                "224.0.1.1",
                "ff01::1",
                "ff11::7",
                "ff00::7",
                "ff0f::7",
            ),
            *("ff02::1", "ff02::2", "FF02::5", "ff02::12", "ff02::16", "ff02::6b", "ff02::fb", "ff02::1:2"),
            *("ff02::1:3", "ff02::1:ff00:1234", "ff02::2:ff12:3456"),
        )
    ),
]
"""What a LAN may not take of the nodes."""


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_nodes_have(changes: dict[str, Any], message: str) -> None:
    """Ports, VNIs and groups of the nodes' own are refused, and a LAN that has one from before keeps it."""
    new = lan(**changes)
    with pytest.raises(Denied) as error:
        check_permits(new, None, (), USUAL)
    assert message in str(error.value) and str(error.value).startswith("LAN default/blue: spec.v")
    if "vxlan_grp" not in changes:
        assert "ask an administrator to allow the port with --lan-port" in str(error.value)
    with pytest.raises(Denied):
        check_permits(new, lan(), (), USUAL)
    check_permits(replace(new, spec=replace(new.spec, spokes=("c",))), new, (), USUAL)


@pytest.mark.parametrize(
    "group",
    [
        "239.1.2.3",
        "232.0.0.1",
        "224.0.2.1",
        "FF02:0:0:0:0:0:0:14",
        "ff02::6c00:7",
        "ff15::6c00:7",
        "ff05::1",
        "ff1e::5",
    ],
)
def test_groups_that_are_free(group: str) -> None:
    """A group that leaves the node and that no protocol has is a LAN's, such as that which k8slan writes."""
    assert group_fault(group) == ""


@pytest.mark.parametrize("port", [1024, DEFAULT_PORT, 4790, 29_999, 32_768, 65_535])
def test_ports_that_are_free(port: int) -> None:
    """A port that nodes need for nothing known is a LAN's."""
    check_permits(lan(vxlan_port=port), None, (), USUAL)


def test_ports_that_an_administrator_names() -> None:
    """The option replaces the ports, and frees what it names of other rules."""
    named = Permits(ports=((53, 53), (8472, 8480)))
    for port in (53, 8472, 8480):
        check_permits(lan(vxlan_port=port, vni=1), None, (), named)
    with pytest.raises(Denied, match=r"spec.vxlanPort is 4789; LANs may use 53, 8472-8480; choose another"):
        check_permits(lan(), None, (), named)


def test_a_lan_of_an_isolated_network() -> None:
    """What Lanloom's manager makes for isolated networks is no tenant's, and counts for none."""
    joined = other(host_bridge=HostBridge(name="iso-br", alias="lanloom-dummy a"), spokes=())
    check_permits(replace(joined, spec=replace(joined.spec, vni=4096)), None, (), USUAL)
    check_permits(lan(), None, (joined,), Permits(lans=1))


def test_how_much_one_namespace_may_have() -> None:
    """LANs and spokes of a namespace are counted; others' don't count, and what is there may stay and shrink."""
    permits = Permits(lans=2, spokes=5)
    mine, theirs = lan(), other(namespace="theirs", spokes=("p", "q", "r"))
    second: LAN = other(spokes=("x", "y", "z"))
    check_permits(second, None, (mine, theirs, second), permits)
    with pytest.raises(
        Denied, match=r"namespace default would have 3 LANs, .* may have 2; .* raise --lan-max-lans"
    ):
        check_permits(lan("green"), None, (mine, theirs, second), permits)
    more = other(spokes=("x", "y", "z", "w"))
    with pytest.raises(Denied, match=r"would have 6 spokes, .* raise --lan-max-spokes"):
        check_permits(more, second, (mine, theirs, second), permits)
    tight = Permits(lans=1, spokes=1)
    check_permits(other(spokes=("x", "y")), second, (mine, second), tight)
    check_permits(other(spokes=("a", "y", "z")), second, (mine, second), tight)


def _parsed(*arguments: str, **environment: str) -> Permits | str:
    import click

    found: list[Permits] = []

    @click.command()
    @MANAGER_OPTIONS.decorate
    def command(**values: Any) -> None:
        found.append(MANAGER_OPTIONS.settings(values))

    result = CliRunner().invoke(command, arguments, env=environment)
    return found[0] if found else result.output


def test_options() -> None:
    """Options and variables of the environment say the same; a wrong port is refused."""
    assert _parsed() == USUAL
    expected = Permits(ports=((4789, 4789), (9000, 9009)), lans=7, spokes=70)
    given = ("--lan-port", "4789", "--lan-port", "9000-9009", "--lan-max-lans", "7", "--lan-max-spokes", "70")
    assert _parsed(*given) == expected
    assert (
        _parsed(LANLOOM_LAN_PORT="4789 9000-9009", LANLOOM_LAN_MAX_LANS="7", LANLOOM_LAN_MAX_SPOKES="70")
        == expected
    )
    for wrong in ("0", "65536", "9-8", "x", "1-", "-1", "1-2-3", "٤"):
        assert "no port or range of ports" in str(_parsed("--lan-port", wrong)).replace("\n", " ")
