"""A whole cluster in one event loop under a virtual clock: API server, managers, agents on hosts in memory, and faults.

`cluster`, `faults` and `processes` know no feature; `vlan` puts the VLAN feature's processes into them.
"""
