"""`lanloom console`: web pages of the cluster's networks."""

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lanloom.cli.cluster import ClusterOptions
from lanloom.cli.options import cluster_options
from lanloom.text import authority

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanloom.console.serve import Certificate
    from lanloom.kube.config import ClusterConfig
    from lanloom.runtime.feature import Feature

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@click.command(name="console")
@cluster_options
@click.option(
    "--address",
    default="127.0.0.1:9880",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on. Port 0: any free one.",
)
@click.option(
    "--login",
    is_flag=True,
    help="Have each user log in with a token of the cluster, instead of lending the kubeconfig's rights by a link.",
)
@click.option(
    "--host-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Name by which browsers reach the console, besides the loopback addresses. Can be repeated.",
)
@click.option(
    "--tls-certificate",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Certificate chain, PEM.",
)
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Its key, PEM.")
@click.pass_context
def command(
    ctx: click.Context,
    cluster: ClusterOptions,
    address: str,
    login: bool,
    names: tuple[str, ...],
    tls_certificate: Path | None,
    tls_key: Path | None,
) -> None:
    """Show the cluster's networks as web pages, until Ctrl-C.

    The pages show what the command line shows, and change with the cluster. Nothing can be changed by them.

    On a loopback address, the printed link logs one browser in with the credentials of the kubeconfig. With --login,
    and in a pod, each user logs in with a token of his own, and sees what that may read. Any other address requires
    --login and a TLS certificate.

    \b
    Examples:
      lanloom console
      lanloom console --kubeconfig "$(lanloom lab kubeconfig)"
      lanloom console --login --address [::]:9443 --host-name lanloom.example.com \\
        --tls-certificate tls.crt --tls-key tls.key
    """
    from lanloom.console.serve import Certificate
    from lanloom.kube.config import SERVICE_ACCOUNT
    from lanloom.kube.errors import ConfigError
    from lanloom.runtime.probes import parse_address
    from lanloom.runtime.process import run_process
    from lanloom.runtime.sockets import listen

    try:
        host, port = parse_address(address)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--address") from None
    if (tls_certificate is None) != (tls_key is None):
        raise click.UsageError("--tls-certificate and --tls-key belong together")
    tls = (tls_certificate, tls_key) if tls_certificate is not None and tls_key is not None else None
    if host not in LOOPBACK and not (login and tls):
        raise click.UsageError(
            f"{host} is no loopback address: --login and --tls-certificate keep others' credentials from being read"
        )
    try:
        config = cluster.config
        is_pod = config.token_file.startswith(str(SERVICE_ACCOUNT))
        certificate = Certificate(*tls) if tls is not None else None
        sock = listen(host, port)
    except (ConfigError, OSError) as error:
        raise click.ClickException(str(error)) from None
    run_process(_run(config, sock, certificate, frozenset(names), login or is_pod, is_pod, ctx.obj))


async def _run(
    config: "ClusterConfig",
    sock: socket.socket,
    certificate: "Certificate | None",
    names: frozenset[str],
    login: bool,
    is_pod: bool,
    features: "Sequence[Feature]",
) -> None:
    """Serve; in a pod, follow with the pod's own identity what users may see."""
    import asyncio
    from random import Random

    from lanloom.console.app import Console
    from lanloom.console.catalogue import pages
    from lanloom.console.serve import serve
    from lanloom.console.sessions import Sessions
    from lanloom.console.stores import Stores
    from lanloom.kube.http import HttpClient

    now = asyncio.get_running_loop().time
    client = HttpClient(config) if is_pod else None
    shared = Stores(client, now, Random()) if client is not None else None
    sessions = Sessions(now, shared)
    host, port = sock.getsockname()[:2]
    console = Console(
        config, pages(features), sessions, hosts=LOOPBACK | names, secure=certificate is not None
    )
    at = f"{'https' if certificate else 'http'}://{authority(host, port)}/"
    click.echo(at if login else f"{at}login?once={sessions.link(config)}")
    if not login:
        click.echo("The link logs one browser in, once and within ten minutes.", err=True)
    try:
        await serve(console, sessions, sock, certificate)
    finally:
        if client is not None and shared is not None:
            shared.close()
            await client.close()
