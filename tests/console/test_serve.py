"""The console on a socket: whose certificate it shows."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from lanloom.console.app import Console
from lanloom.console.menu import pages
from lanloom.console.serve import Certificate, serve
from lanloom.console.sessions import Sessions
from lanloom.features import FEATURES
from lanloom.kube.config import ClusterConfig
from lanloom.runtime.https.server import listen

pytestmark = pytest.mark.slow


async def shown(port: int) -> bytes:
    """The certificate that a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


def issue(directory: Path) -> None:
    """Writes a certificate with its key."""
    directory.mkdir(exist_ok=True)
    made = trustme.CA().issue_cert("127.0.0.1")
    made.cert_chain_pems[0].write_to_path(directory / "tls.crt")
    made.private_key_pem.write_to_path(directory / "tls.key")


async def test_a_certificate_that_is_renewed(tmp_path: Path) -> None:
    """A renewed certificate is shown to new connections at once; one of another key, or none, changes nothing."""
    issue(tmp_path)
    certificate = Certificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    sessions = Sessions(asyncio.get_running_loop().time)
    config = ClusterConfig(server="http://127.0.0.1:1")
    console = Console(config, pages(FEATURES), sessions, hosts=frozenset({"127.0.0.1"}), secure=True)
    sock = listen("127.0.0.1", 0)
    task = asyncio.create_task(serve(console, sessions, sock, certificate))
    try:
        first = await shown(sock.getsockname()[1])
        issue(tmp_path)
        certificate.renew()
        second = await shown(sock.getsockname()[1])
        assert second != first
        issue(tmp_path / "other")
        for broken in ((tmp_path / "other/tls.crt").read_text(), "nothing"):
            (tmp_path / "tls.crt").write_text(broken)
            certificate.renew()
            assert await shown(sock.getsockname()[1]) == second
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
