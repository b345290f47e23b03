"""The rules of address management: pure, and all that there is of it without a server.

* Values: `addresses` (with ranges and CIDRs), `model` (networks, NICs, usage), `names`.
* Who owns what: `ledger`, on `owners` and `bits`. Who else has addresses: `others`.
* Networks: `change` is one operation, with the steps of `general` and `subnets`; `validate` has the conditions of a
  network and checks an edited object.
* Namespaces and names: `shares` (who takes addresses, how many, and for how long).
* NICs: `requests` (which addresses one gets), `macs`.
"""
