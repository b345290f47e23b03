"""The manager's side of DummyClusterNetworks: makes what belongs to them, and removes it when nobody uses it.

`controllers` wires changes to reconciles, `informers` is what is followed. `networks` reconciles a network, and what is
left of one whose finalizer somebody removed by force: `reader` gathers what the rules need, `executor` acts.
"""

from lanloom.features.dummy.manager.controllers import DummyManager
from lanloom.features.dummy.manager.informers import DummyInformers, dummy_informers

__all__ = ["DummyInformers", "DummyManager", "dummy_informers"]
