"""The kernel's adapter: LANs as namespaces, links and forwarding entries, by rtnetlink.

`writer` holds LANs open and applies steps; `lansteps`, `portsteps`, `optionsteps` and `hostbridge` are the adapters of
the steps in the modules of `rules` with these names; `reader` looks.
"""

from lanloom.features.lan.agent.links import (  # they register the adapters
    hostbridge,
    lansteps,
    optionsteps,
    portsteps,
)
from lanloom.features.lan.agent.links.reader import Reader, watch
from lanloom.features.lan.agent.links.writer import LanWriter

__all__ = ["LanWriter", "Reader", "hostbridge", "lansteps", "optionsteps", "portsteps", "watch"]
