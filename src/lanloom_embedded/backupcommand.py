"""`lanloom backup`: a copy of all data of a running embedded server."""

from pathlib import Path

import click

from lanloom.cli.options import kubeconfig_option


@click.command(name="backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@kubeconfig_option
def command(file: Path, kubeconfig: str | None) -> None:
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
    import asyncio

    from lanloom.kube.errors import KubeError
    from lanloom.runtime.connect import connect
    from lanloom_embedded.backup import Backup, BackupError, back_up

    async def work() -> Backup:
        async with connect(kubeconfig) as client:
            return await back_up(client, file)

    try:
        made = asyncio.run(work())
    except (BackupError, KubeError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{file} can't be written: {error.strerror}") from None
    click.echo(f"{file}: {made.objects:,} objects, {made.size:,} bytes")
