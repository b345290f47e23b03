"""What a host can do: ports (Protocols), adapters for the kernel and NetworkManager, and fakes that behave alike."""
