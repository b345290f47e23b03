"""`lanloom backup`: fetch a copy of a running embedded server's data, and check it before it is called a backup."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from lanloom.cli.cluster import ClusterOptions, run
from lanloom.cli.options import cluster_options
from lanloom.kube.errors import NotFound
from lanloom.node.files import opened_directory, replacing

if TYPE_CHECKING:
    from lanloom.kube.http import HttpClient

_PATH = "/backup"


class BackupError(Exception):
    """There is no backup; the message says why."""


class Backup(Struct, frozen=True):
    """The contents of a backup: the number of `objects`, and its `size` in bytes."""

    objects: int
    size: int


async def back_up(client: "HttpClient", path: Path) -> Backup:
    """Write the server's data to `path`, all of them or nothing. Raises BackupError, KubeError, OSError.

    A file that is there is replaced. Only its owner can read the new one: it has all Secrets.
    """
    with opened_directory(path.parent) as directory, replacing(directory, path.name) as draft:
        try:
            await client.download(_PATH, draft.write)
        except NotFound:
            raise BackupError(
                "the API server has no backups: it is not `lanloom serve`, or an older one. Back up its etcd instead"
            ) from None
        draft.flush()
        return _checked(draft.fileno())


def _checked(draft: int) -> Backup:
    """Check an open file, which must be a whole database, and describe its contents."""
    try:
        with closing(sqlite3.connect(f"file:/proc/self/fd/{draft}?mode=ro&immutable=1", uri=True)) as db:
            (verdict,) = db.execute("PRAGMA quick_check").fetchone()
            (objects,) = db.execute("SELECT count(*) FROM objects").fetchone()
    except sqlite3.Error as error:
        raise BackupError(f"what the API server sent is no backup: {error}") from None
    if verdict != "ok":
        raise BackupError(f"what the API server sent is damaged: {verdict}")
    return Backup(objects, os.fstat(draft).st_size)


@click.command(name="backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@cluster_options
def command(file: Path, cluster: ClusterOptions) -> None:
    """Back up all data of a running `lanloom serve` to FILE.

    The backup is consistent and does not block writes. An existing FILE is replaced when the new one is complete. The
    file contains all Secrets, so only its owner can read it. The user of the kubeconfig must be allowed to read all
    Secrets.

    To restore a backup, stop the server, move its data files away, and start the server with the backup:

    \b
      mkdir former && mv lanloom.db* former/
      cp FILE lanloom.db
      lanloom serve --data lanloom.db --kubeconfig kubeconfig

    \b
    Example:
      lanloom backup --kubeconfig kubeconfig "lanloom-$(date +%F).db"
    """
    try:
        made = run(cluster, lambda client: back_up(client, file))
    except BackupError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{file} can't be written: {error.strerror}") from None
    click.echo(f"{file}: {made.objects:,} objects, {made.size:,} bytes")
