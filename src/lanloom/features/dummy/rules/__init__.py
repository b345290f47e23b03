"""The rules of isolated networks, as pure functions on immutable values.

* Values: `model` (a network, its users, settings, names), `spec` reads and validates what a user wrote, `flags` the
  settings of flags, environment and ConfigMap.
* What is made for a network: `objects` (NAD, addresses, ClusterNetwork) and `daemonset`. `subnet` tells which addresses
  are free.
* Its life: `lifecycle` decides, by `ensure` and `teardown`, from and to the values of `observed`. Parts of both:
  `bridges` and `acknowledgements` (what nodes report), `status` (conditions and Events).
* Admission: `admit` for networks and NADs, `admit_references` for machines and pods, with their reservations.
* On a host: `hostbridge`.
"""
