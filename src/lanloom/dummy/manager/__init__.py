"""The manager's side of DummyClusterNetworks: makes what belongs to them, and takes it away when nobody uses it.

`controllers` is the whole and says what wakes what; `informers` is what is watched, `matters` what of it wakes anybody.
`networks` looks after one network: `observing` gathers what the rules want to know, `acting` carries out what they
decide. `orphans` looks after what was left by networks whose finalizer somebody removed by force.
"""

from lanloom.dummy.manager.controllers import DummyManager
from lanloom.dummy.manager.informers import DummyInformers, dummy_informers

__all__ = ["DummyInformers", "DummyManager", "dummy_informers"]
