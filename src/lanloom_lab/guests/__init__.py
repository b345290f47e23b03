"""Real guests: QEMU with Debian's kernel and a first program of our own, as virtual machines of a lab."""
