"""The host's side of isolated networks: `bridge` keeps one bridge, `garbage` removes those without a network."""

from lanloom.features.dummy.agent import linkwriter  # the kernel's adapter of its steps

__all__ = ["linkwriter"]
