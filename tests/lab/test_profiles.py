"""Profiles on a real NetworkManager: it loads every one that is rendered, and takes over those of an older version."""

from collections.abc import Iterator

import pytest

from lanloom.api import names
from lanloom.api.l3 import L3, Route, Routing
from lanloom.api.linknames import interface_name
from lanloom.features.vlan.rules.desired.names import (
    profile_file,
    profile_id,
    routing_table,
)
from lanloom.features.vlan.rules.desired.profile import Profile, profile_of, render
from tests.lab.agents import without_agent
from tests.lab.driver import Lab, eventually
from tests.lab.looks import all_have
from tests.lab.objects import STATIC, vm_network

pytestmark = [pytest.mark.lab, pytest.mark.slow]

DIRECTORY = "/etc/NetworkManager/system-connections"
LINK = interface_name("cluster-1", 2012)

ROUTINGS = (
    Routing(),
    Routing(gateway="10.9.0.1/16"),
    Routing(routes=(Route("10.200.0.0/16", "10.9.0.2"), Route("10.201.4.0/24", "10.9.0.3"))),
    Routing(dns=("10.9.0.53", "1.1.1.1")),
    Routing(gateway="10.9.0.1/16", routes=(Route("172.16.0.0/12", "10.9.0.7"),), dns=("10.9.0.53",)),
)
NETWORKS = ("a", "nw", "mgmt", "abcdefgh", "abcdefghi", "cluster-1", "twelve-chars")
VALUES = (
    *(
        L3(vid=vid, mode="dhcp", routing=item)
        for vid, item in zip((2, 30, 401, 2012, 4094), ROUTINGS, strict=True)
    ),
    *(
        L3(vid=vid, mode="static", addresses={"node1": "10.9.1.4/16"}, routing=item)
        for vid, item in zip((3, 31, 402, 2013, 4093), ROUTINGS, strict=True)
    ),
)
PROFILES = tuple(profile_of("lab", "node1", network, value) for network in NETWORKS for value in VALUES)

FIELDS = (
    "connection.id,connection.interface-name,vlan.id,vlan.parent,ipv4.method,ipv4.addresses,ipv4.routes,ipv4.dns,"
    "ipv4.never-default,ipv4.ignore-auto-dns,ipv4.ignore-auto-routes,ipv4.may-fail,ipv6.method"
)

OLD = """\
# Written by the Lanloom agent, which overwrites any change.

[connection]
id=cluster-1-vlan2012
uuid={uuid}
type=vlan
interface-name={link}
autoconnect-retries=0

[vlan]
flags=1
id=2012
parent=cluster-1-br

[ipv4]
address1=192.168.1.10/24
dad-timeout=2000
ignore-auto-dns=true
may-fail=false
method=manual
never-default=true

[ipv6]
method=disabled

[user]
lanloom.owner=cluster-1/2012
"""
"""A profile as version 0.1 wrote it."""


@pytest.fixture
def agentless(lab: Lab) -> Iterator[Lab]:
    """The lab with node1's agent stopped, which would remove what no NAD asks for; afterwards without the profiles."""
    with without_agent(lab, "node1"):
        yield lab
        lab.on("node1", f"rm -f {DIRECTORY}/*.nmconnection; nmcli connection reload")


def expected(profile: Profile) -> list[str]:
    """What `nmcli -g` prints of these fields."""
    routing = profile.routing
    name, vid = profile.cluster_network, profile.vid
    routes = [f"{route.to} {route.via}" for route in routing.routes]
    if routing.gateway:
        routes.insert(0, f"0.0.0.0/0 {routing.gateway.partition('/')[0]} table={routing_table(name, vid)}")
    return [
        profile_id(name, vid),
        interface_name(name, vid),
        str(vid),
        names.bridge_name(name),
        "manual" if profile.mode == "static" else "auto",
        profile.address,
        ", ".join(routes),
        ",".join(routing.dns),
        *("yes", "yes", "yes", "no", "disabled"),
    ]


def test_network_manager_loads_every_profile(agentless: Lab) -> None:
    """Each of a broad choice of profiles is known by its UUID, with the settings that were meant."""
    assert len({profile.uuid for profile in PROFILES}) == len(PROFILES) >= 50
    script = "umask 077\n" + "".join(
        f"cat > {DIRECTORY}/{profile_file(item.cluster_network, item.vid)} <<'END'\n{render(item).decode()}END\n"
        for item in PROFILES
    )
    agentless.run("exec", "node1", "--", "sh", given=f"{script}nmcli connection reload\n")
    uuids = " ".join(profile.uuid for profile in PROFILES)
    printed = agentless.on("node1", f"nmcli -t -f {FIELDS} connection show {uuids}").splitlines()
    values = [line.partition(":")[2] for line in printed if line]
    size = len(FIELDS.split(","))
    found = [values[start : start + size] for start in range(0, len(values), size)]
    for profile, settings in zip(PROFILES, found, strict=True):
        assert settings == expected(profile)


def test_profiles_of_an_older_version_are_taken_over(cluster: Lab) -> None:
    """An agent that finds a predecessor's profile and no records brings it up to date, and the address stays."""
    cluster.apply(vm_network("vlan2012", "cluster-1", 2012, "static", STATIC))
    eventually(lambda: all_have(cluster, "cluster-1", 2012) == STATIC)
    file = f"{DIRECTORY}/{profile_file('cluster-1', 2012)}"
    present = cluster.on("node1", f"cat {file}")
    uuid = next(line for line in present.splitlines() if line.startswith("uuid=")).removeprefix("uuid=")
    old = OLD.format(uuid=uuid, link=LINK)
    assert old != present
    with without_agent(cluster, "node1"):
        cluster.run("exec", "node1", "--", "sh", "-c", f"cat > {file}", given=old)
        cluster.on("node1", f"nmcli connection load {file} && nmcli device reapply {LINK}")
        cluster.on(
            "node1", "rm -rf /var/lib/lanloom/* /run/lanloom/*; setsid ip monitor address > /run/seen 2>&1 &"
        )
    eventually(lambda: cluster.on("node1", f"cat {file}") == present)
    settings = f"nmcli -g ipv4.ignore-auto-routes connection show {uuid}"
    eventually(lambda: cluster.on("node1", settings).strip() == "yes")
    assert all_have(cluster, "cluster-1", 2012) == STATIC
    assert LINK not in cluster.on("node1", "grep Deleted /run/seen || true")
    cluster.on("node1", "kill $(pgrep -x ip)")
