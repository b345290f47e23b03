"""Changes of a directory that others write to: files that come and go."""

import errno
from collections.abc import AsyncGenerator
from pathlib import Path

from asyncinotify import Inotify, Mask

_CHANGES = Mask.CREATE | Mask.DELETE | Mask.MOVED_TO | Mask.MOVED_FROM
_END = Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.IGNORED


async def directory_changes(directory: Path) -> AsyncGenerator[None, None]:
    """Yield once when the directory is watched, and whenever names in it may have come or gone.

    Raises OSError when it can't be watched, or goes away.
    """
    with Inotify(sync_timeout=0) as inotify:
        inotify.add_watch(directory, _CHANGES | _END & ~Mask.IGNORED | Mask.ONLYDIR)
        yield
        async for event in inotify:
            ended = bool(event.mask & _END)
            for more in inotify:
                ended = ended or bool(more.mask & _END)
            if ended:
                raise OSError(errno.ENOENT, "the directory went away", str(directory))
            yield
