"""The grammar of `lanloom network` and `lanloom instance`: options, query fields and texts, without any I/O.

* Options: `options` is their syntax; `syntax` reads those of networks, `net_option` reads `--net`.
* `nics`: the NICs of an instance before and after its options.
* Texts: `fields` (query fields of networks), `difference`.
"""
