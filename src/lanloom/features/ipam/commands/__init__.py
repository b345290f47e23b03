"""The work of the commands of address management: what they read from a cluster and write to it.

`networks` changes networks, and `networkviews` describes them. `instancechange` changes instances as `instanceplan`
plans it; `instances` and `instanceviews` describe them.
"""
