"""The rules of VLAN networks: pure functions from what is wanted and observed to what is to be done and said.

* `admit`: what the webhooks allow.
* `desired`: what a node should carry, and the plan that leads there.
* `report`: what agents report, and what the manager concludes.
* `rollout`: which nodes are released next.
* `migration`: the way from Harvester's controller to Lanloom, and back.

Below `admit`, each builds on those above it. `admit` uses `desired`, `report` and `rollout`.
"""
