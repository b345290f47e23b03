"""A host in memory that behaves as the kernel and NetworkManager 1.42 do, and the switch that such hosts plug into.

Timing (DHCP, duplicate detection) runs on the event loop's clock, so that a virtual loop makes it deterministic. The
contract tests that hold the adapters to their word hold these fakes to the same.
"""

from tests.fakes import isolated
from tests.fakes.host import FakeHost
from tests.fakes.kernel import apply
from tests.fakes.switch import FakeSwitch

__all__ = ["FakeHost", "FakeSwitch", "apply", "isolated"]
