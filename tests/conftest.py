"""What tests of several folders share: the real kube-apiserver (started only if a test asks for it)."""

from tests.servers.fixtures import real_binaries, real_server

__all__ = ["real_binaries", "real_server"]
