"""The controllers of live update, on the leader.

The migration way: `informers` is what is watched, `modes` decides who does what. `machines` reconciles one machine,
`updater` requests and aborts migrations, `writer` changes objects of KubeVirt, and `controllers` is what wakes them.
The in-place way: `swaps` and `swapreader`. `build` puts both together.
"""
