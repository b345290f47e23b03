"""A host in memory that behaves as the kernel and NetworkManager 1.42 do, and the switch that such hosts plug into.

Timing (DHCP, duplicate detection) runs on the event loop's clock, so that a virtual loop makes it deterministic. The
contract tests that hold the adapters to their word hold these fakes to the same.
"""

from lanloom.node.fakes.host import FakeHost
from lanloom.node.fakes.switch import FakeSwitch

__all__ = ["FakeHost", "FakeSwitch"]
