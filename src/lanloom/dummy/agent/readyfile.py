"""A file that is there exactly while all is well: a kubelet's probe looks for it."""

from pathlib import Path


class ReadyFile:
    """The file at `path`. It is empty, so it is never seen half-written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def show(self, ready: bool) -> None:
        """Makes the file be there, or not. Raises OSError."""
        if ready:
            self._path.touch(mode=0o644)
        else:
            self._path.unlink(missing_ok=True)
