"""Decisions about LANs: pure functions on what the API server and a node's kernel say.

The control plane's: `spec` judges a LAN by itself, `claims` next to others; `nads` is what its NADs should be, `admit`
what webhooks refuse, `status` what a LAN's status says, `removal` in which order NADs and LANs go. A node's part:
`desired` is what a node should have, `plan` the steps to it from what it has, `flood` where frames for many go.
"""
