"""`python3 -m lanloom_lab.inner`: the inner daemon, started by the kernel or by the supervisor."""

import asyncio
import traceback
from pathlib import Path

from lanloom_lab.inner.daemon import Daemon, halt
from lanloom_lab.plan import INNER_ADDRESS, INNER_PORT

if __name__ == "__main__":
    try:
        asyncio.run(Daemon(Path("/mnt/state")).serve(INNER_ADDRESS, INNER_PORT))
    except Exception:
        traceback.print_exc()
    finally:
        halt()
