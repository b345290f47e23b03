"""Options of spokes in a trace: where they stop a frame, and in which words."""

from typing import Any

from msgspec.structs import replace

from lanloom.api.lan import LAN, Spoke, SpokeOptions
from lanloom.features.lan.trace.hops import stopped_at, trace
from tests.features.lan.trace.samples import BLUE, facts, far, near

OWN = "02:00:00:00:00:01"
"""What Multus reports in the samples."""


def options(**by_spoke: SpokeOptions) -> LAN:
    """The LAN with options."""
    return replace(BLUE, spec=replace(BLUE.spec, spoke_options=by_spoke))


def secured(mac: str = OWN, **more: Any) -> Any:
    """The facts of a frame from a secured spoke, and where it stops."""
    here = near(spokes=(Spoke(name="a", mode="veth", mac=mac),))
    return stopped_at(trace(facts(here, **more)))


def test_port_security() -> None:
    """A frame from another address than the interface's own stops at the sender's port, with the remedy."""
    assert secured() is None
    assert secured(source=OWN) is None
    for found in (secured(source="0e:00:00:00:00:77"), secured("02:00:00:00:00:99")):
        assert found is not None and (found.node, found.kind) == ("n1", "port")
        assert "port security: the spoke a sends from" in found.reason
        assert found.reason.endswith('or set spec.spokeOptions["a"].portSecurity to false')
    assert stopped_at(trace(facts(source="0e:00:00:00:00:77"))) is None


def test_a_storm() -> None:
    """Where storm control drops frames from the sender lately, whether this one passes is not known, and why."""
    here = near(spokes=(Spoke(name="a", mode="veth", storming=True),))
    hops = trace(facts(here))
    assert stopped_at(hops) is None
    (port,) = [hop for hop in hops if (hop.node, hop.kind) == ("n1", "port")]
    assert port.state == "unknown" and "it sends more than 20000 of them in a second" in port.reason


def test_isolation() -> None:
    """A frame between isolated spokes stops at the receiver's port; one of the two alone reaches the other."""
    isolated = SpokeOptions(isolated=True)
    for alone in (options(a=isolated), options(b=isolated)):
        assert stopped_at(trace(facts(of=alone))) is None
    found = stopped_at(trace(facts(of=options(a=isolated, b=isolated))))
    assert found is not None and (found.node, found.kind) == ("n2", "port")
    assert "the spokes a and b are both isolated" in found.reason


def test_a_smaller_mtu() -> None:
    """A packet that is larger than the spoke's own MTU stops at its interface."""
    found = stopped_at(trace(facts(of=options(a=SpokeOptions(mtu=1300)), size=1400)))
    assert found is not None and found.kind == "interface" and "MTU 1300" in found.reason


def test_a_limit_that_is_not_enforced() -> None:
    """A node that can't do what an option asks for still passes frames."""
    message = "not enforced here: spec.maxLearnedMacs is 5, and the bridges of this kernel have no such limit"
    broken = {"ready": False, "message": message}
    assert stopped_at(trace(facts(near(**broken), far(**broken)))) is None
