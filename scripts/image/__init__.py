"""The container image (`make image`): Debian's packages, pinned wheels and Lanloom as three layers of an OCI archive.

No daemon, no root and no emulator is needed, as nothing of the image is run or installed: packages and wheels are
unpacked, and each file is written to its layer with a fixed owner and time. So the same inputs give the same digest,
also for another architecture than this machine's, and an upgrade of Lanloom changes the last layer alone.
"""
