"""Real guests: QEMU with Debian's kernel and a first program of our own, for tests of the networks that VMs use."""
