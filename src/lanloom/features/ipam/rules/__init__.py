"""The rules of address management: pure, and all that there is of it without a server.

* Values: `addresses`, `ranges`, `model` (networks, NICs, usage), `names`, `errors`.
* Who owns what: `ledger`, on `owners`, `layout` and `bits`.
* Networks: `change` is one operation, with the steps of `general` and `subnets`; `validate` checks an edited object;
  both by `invariants` (what must hold of a network, and what its users forbid).
* NICs: `requests` (which addresses one gets), `macs`.
"""
