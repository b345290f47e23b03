"""The rules of address management: pure, and all that there is of it without a server.

* Values: `addresses`, `ranges`, `model` (networks and NICs), `names`, `errors`.
* Who owns what: `ledger`, on `owners`, `layout`, `bits` and `bits_sparse`; `usage` counts it.
* Networks: `change` is one operation, with the steps of `general`, `subnets`, `pools` and `reserved`; `validate` judges
  an edited object; both by `invariants` (what must hold of a network) and `transitions` (what its users forbid).
* NICs: `requests` (which addresses one gets), `nics` (those of an instance, before and after), `macs`.
* Options: `options` is their syntax; `syntax` and `oldoptions` read those of networks, `net_option` reads `--net`.
* Telling: `query` (fields of lists), `fields` and `described` (those of networks), `drawing`, `difference`,
  `environment`.
* `ganeti`: Ganeti's own files.
"""
