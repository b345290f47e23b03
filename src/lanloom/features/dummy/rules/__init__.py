"""The rules of isolated networks, as pure functions on immutable values.

* Values: `model` (a network, settings, names), `spec` parses and validates user input, `flags` the
  settings of flags, environment and ConfigMap.
* Objects of a network: `objects` (NAD, addresses, ClusterNetwork) and `daemonset`. `subnet` knows which addresses are
  free.
* Its life: `lifecycle` decides, by `ensure` and `teardown`, from and to the values of `observed`. Parts of both:
  `bridges` and `acknowledgements` (reports of nodes), `status` (conditions and Events).
* Admission: `admit` for networks and NADs.
* On a host: `hostbridge`.
"""
