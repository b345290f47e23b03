"""The host's side of isolated networks: one process keeps one bridge, the node's agent sweeps up what nobody owns."""
