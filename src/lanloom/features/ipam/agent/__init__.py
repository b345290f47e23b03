"""The node's side of address management: serves the CNI plugin `lanloom-ipam`.

`server` is the socket with its messages, `service` the CNI commands, by way of `nics`. `cnitypes` and `pods` are rules
over input of runtimes, users and KubeVirt.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import structlog
from prometheus_client import CollectorRegistry, Counter

import lanloom.cni
from lanloom.features.ipam.agent.server import CniServer, Observer, Raw, Request
from lanloom.kube.events import Recorder
from lanloom.kube.ports import Client
from lanloom.runtime.cni import PartObserver
from lanloom.runtime.context import AgentContext, AgentPart
from lanloom.runtime.metrics import FeatureMetrics

if TYPE_CHECKING:
    from lanloom.features.ipam.agent.service import IpamService

PROGRAM = "lanloom-ipam"
"""The name of the program, which configurations give as the `type` of their `ipam` section."""

_SOCKET_LINE = 'SOCKET = "/run/lanloom/cni.sock"\n'

log = structlog.get_logger(__name__)


def build(context: AgentContext) -> AgentPart:
    """Answer the plugin, unless the agent is configured to answer none."""
    metrics, settings = context.metrics["ipam"], context.cni

    async def run() -> None:
        if settings is not None:
            await serve_cni(
                context.client,
                context.host.name,
                settings.socket,
                now=context.now,
                rng=context.rng,
                observe=metrics.called,
                on_part=context.on_cni_part,
            )

    return AgentPart(run=run)


def program(socket: Path) -> bytes:
    """The plugin's text, for an agent that listens there."""
    sources = Path(lanloom.cni.__file__).parent
    text = "".join((sources / name).read_text(encoding="utf-8") for name in ("launcher.sh", "plugin.py"))
    if _SOCKET_LINE not in text:
        raise ValueError("the plugin's text has no line for the socket")
    return text.replace(_SOCKET_LINE, f"SOCKET = {str(socket)!r}\n").encode()


class _LateService:
    """The service, loaded at the first call: until then, on most nodes for good, it would only take memory."""

    def __init__(self, client: Client, node: str, recorder: Recorder, rng: Random) -> None:
        self._made = (client, node, recorder, rng)
        self._service: IpamService | None = None

    async def answer(self, request: Request) -> Raw:
        """As IpamService does."""
        if self._service is None:
            from lanloom.features.ipam.agent.service import IpamService

            client, node, recorder, rng = self._made
            self._service = IpamService(client, node, recorder, rng=rng)
        return await self._service.answer(request)


async def serve_cni(
    client: Client,
    node: str,
    socket: Path,
    *,
    now: Callable[[], float],
    rng: Random,
    observe: Observer = lambda _command, _code: None,
    on_part: PartObserver = lambda _part, _there: None,
) -> None:
    """Answer the plugin until cancelled; `observe` gets each call, `on_part` whether the socket is there.

    What fails here is logged, and the node's VLANs are kept all the same.
    """
    service = _LateService(client, node, Recorder(client, "lanloom-agent", node, now=now, rng=rng), rng)
    server = CniServer(socket, service.answer, observe=observe, on_ready=lambda: on_part("socket", True))
    on_part("socket", False)
    try:
        socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        await server.run()
    except OSError as error:
        log.error("cni-not-served", socket=str(socket), error=str(error))
        on_part("socket", False)


class IpamAgentMetrics(FeatureMetrics):
    """The metrics, in a registry that has others too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._cni_calls = Counter(
            "lanloom_agent_cni_calls",
            "Calls of the CNI plugin, by CNI's code for their error, 0 for none.",
            ("command", "code"),
            registry=registry,
        )

    def called(self, command: str, code: int) -> None:
        """Count an answer to the CNI plugin."""
        self._cni_calls.labels(command, str(code)).inc()
