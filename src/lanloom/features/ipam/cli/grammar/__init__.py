"""The grammar of `lanloom network` and `lanloom instance`: options, query fields and texts, without any I/O.

* Options: `options` is their syntax; `syntax` and `oldoptions` read those of networks, `net_option` reads `--net`.
* `nics`: the NICs of an instance before and after its options.
* Texts: `fields` and `described` (query fields of networks), `drawing`, `difference`.
"""
