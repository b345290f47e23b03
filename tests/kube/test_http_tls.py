"""The client's credentials: tokens, certificates, and servers of another CA."""

from pathlib import Path

import pytest
import trustme
import uvloop

from lanloom.api.core import NODES
from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import (
    ConfigError,
    TransportError,
)
from lanloom.kube.http import HttpClient
from tests.kube.server import (
    Server,
    always,
    serving,
)
from tests.kube.things import RED


async def test_token_file_is_read_again(tmp_path: Path) -> None:
    """A token file is read again when its content is old, and not before."""
    file = tmp_path / "token"
    file.write_text("one\n")
    for age, expected in ((0.0, "Bearer two"), (3600.0, "Bearer one")):
        file.write_text("one\n")
        async with serving(always(RED)) as server:
            config = server.config(token_file=str(file))
            async with HttpClient(config, token_age=age) as client:
                await client.get(NODES, "a")
                file.write_text("two\n")
                await client.get(NODES, "a")
        assert [request.headers["Authorization"] for request in server.seen] == ["Bearer one", expected]


async def test_token_file_that_is_missing(tmp_path: Path) -> None:
    """A token file that can't be read is named."""
    config = ClusterConfig(server="https://127.0.0.1:1", token_file=str(tmp_path / "token"))
    async with HttpClient(config) as client:
        with pytest.raises(ConfigError, match=r"token: No such file"):
            await client.get(NODES, "a")


async def test_server_of_another_ca() -> None:
    """A server that the configured CA doesn't vouch for is not talked to, unless verification is switched off."""
    other = trustme.CA().cert_pem.bytes()
    async with serving(always(RED)) as server:
        async with HttpClient(server.config(ca=other, token="secret")) as client:
            with pytest.raises(TransportError, match="certificate"):
                await client.get(NODES, "a")
        assert server.seen == []
        async with HttpClient(server.config(ca=other, insecure=True)) as client:
            assert (await client.get(NODES, "a")).metadata.name == "a"


def test_uvloop() -> None:
    """The client runs on uvloop as on asyncio's own event loop."""

    async def main() -> None:
        async with serving(always(RED)) as server, HttpClient(server.config()) as client:
            assert (await client.get(NODES, "a")).metadata.name == "a"

    uvloop.run(main())


def _certified(server: Server, certificate: trustme.LeafCert) -> ClusterConfig:
    return server.config(
        client_certificate=certificate.cert_chain_pems[0].bytes(),
        client_key=certificate.private_key_pem.bytes(),
    )


async def test_client_certificates() -> None:
    """A client certificate is presented to a server that wants one."""
    authority = trustme.CA()
    async with serving(always(RED), client_ca=authority) as server:
        async with HttpClient(_certified(server, authority.issue_cert("agent"))) as client:
            await client.get(NODES, "a")
        async with HttpClient(server.config()) as client:
            with pytest.raises(TransportError):
                await client.get(NODES, "a")


def test_certificates_that_are_none() -> None:
    """Certificates that can't be used are refused before anything is sent, and named."""
    with pytest.raises(ConfigError, match="certificate-authority of https://x"):
        HttpClient(ClusterConfig(server="https://x", ca=b"\xffno PEM"))
    with pytest.raises(ConfigError, match="client-certificate or client-key of https://x"):
        HttpClient(ClusterConfig(server="https://x", client_certificate=b"no PEM"))
