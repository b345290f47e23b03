"""What holds of isolated networks, as pure functions on immutable values.

* Values: `model` (a network, its users, settings), `spec` reads and judges what somebody wrote, `given` settings;
  `errors`, `names`, `marks` (for whom something was made), `listing` (several things in a message).
* What is made for a network: `nad`, `daemonset` (on `standing`: what others may add), `addresses`, `harvester` (the
  ClusterNetwork of a bridge). `subnet` tells which addresses are free.
* Its life: `lifecycle` decides, by `presence` (what is to be there) and `clearing` (how it is taken away), from and to
  the values of `observed`. Parts of both: `bridges` and `acknowledged` (what nodes say), `rivals` (what is in the way),
  `status` (what is said of it all).
* What the webhooks ask: `admit_networks`, `admit_nads`, `admit_references`; `admitted` are the notes of what was let
  in, which a deletion waits for.
* On a host: `hostbridge` (one that is kept, or taken away) and `surplus` (those that belong to nobody).
"""
