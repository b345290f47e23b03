"""Commit-confirm for one node: a change that cuts the node off from the API server is rolled back.

For the loop this is one call, `CommitConfirm.decide`: it says which revision of each network the node carries now.
Inside, `revisions` selects, `changes` is the state machine of a pending change, `record` keeps the checkpoint on disk,
and `confirm` decides, with a probe of the API server. NetworkManager's own checkpoints know nothing of our bonds and
bridges.
"""

from lanloom.features.vlan.agent.rollback.confirm import CommitConfirm, Decision

__all__ = ["CommitConfirm", "Decision"]
