"""DummyClusterNetworks: isolated networks, made at start and never deleted under a user."""
