"""Read all objects with the types of a version: a program that runs with the modules of this version, or of 0.1.0.

`python reading.py KUBECONFIG` prints the objects that the version can't read, a line each, and ends with `ok`.
"""

import asyncio
import sys

from lanloom.kube.http import HttpClient
from lanloom.processes.definitions import resources

try:
    from lanloom.kube.loading import load
except ImportError:  # 0.1.0
    from lanloom.kube.config import load  # type: ignore[attr-defined,no-redef]


async def run(kubeconfig: str) -> None:
    """List every kind."""
    async with HttpClient(load(kubeconfig)) as client:
        for resource in resources():
            listing = await client.list(resource)
            for item in listing.unreadable:
                print(f"{resource.kind} {item}")
    print("ok")


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
