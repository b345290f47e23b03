"""NetworkManager over D-Bus: the adapter of the port `NetworkManager`."""

from lanloom.node.networkmanager.adapter import DBusNetworkManager

__all__ = ["DBusNetworkManager"]
