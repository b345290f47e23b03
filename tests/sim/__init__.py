"""A whole cluster in one event loop under a virtual clock: API server, managers, agents on hosts in memory, and faults.

`simulation`, `course`, `faults` and `processes` know no feature; `cluster` adds hosts on a switch, and `twomanagers` a
leader and its successor. Each feature has a cluster (`lan`), users who act on it (`lan_users`), what must hold
(`lan_judge`), its course of events (`lan_stories`), and clients that take protections away (`lan_clients`).
"""
