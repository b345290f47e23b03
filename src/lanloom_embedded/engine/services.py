"""Find where a webhook listens whose configuration names a Service.

As in a kube-apiserver that routes to endpoints (`--enable-aggregator-routing`), it is an address of the Service's
Endpoints. A Service without any is called by its DNS name.
"""

from lanloom.api.meta import Key
from lanloom_embedded.engine.ledger import Ledger
from lanloom_embedded.kinds import GroupPlural, Raw

SERVICES = GroupPlural("", "services")
ENDPOINTS = GroupPlural("", "endpoints")

HTTPS_PORT = 443
"""The port of a Service that a webhook listens at if its configuration has none."""


def routed(ledger: Ledger, webhook: Raw) -> Raw:
    """Return a webhook with the URL of its Service's first address, in addition to the Service that names its
    certificate.
    """
    config = webhook.get("clientConfig") or {}
    service = config.get("service")
    if not service:
        return webhook
    authority = _authority(ledger, service)
    if authority is None:
        return webhook
    path = str(service.get("path") or "/").lstrip("/")
    return {**webhook, "clientConfig": {**config, "url": f"https://{authority}/{path}"}}


def _authority(ledger: Ledger, reference: Raw) -> str | None:
    key = Key(reference.get("namespace", ""), reference.get("name", ""))
    service, endpoints = (ledger.latest(resource, key) for resource in (SERVICES, ENDPOINTS))
    if service is None or endpoints is None:
        return None
    wanted = reference.get("port") or HTTPS_PORT
    ports = (service.raw().get("spec") or {}).get("ports") or ()
    names = {port.get("name", "") for port in ports if port.get("port") == wanted}
    for subset in endpoints.raw().get("subsets") or ():
        found = [port["port"] for port in subset.get("ports") or () if port.get("name", "") in names]
        for address in subset.get("addresses") or () if found else ():
            host = f"[{address['ip']}]" if ":" in address["ip"] else address["ip"]
            return f"{host}:{found[0]}"
    return None
