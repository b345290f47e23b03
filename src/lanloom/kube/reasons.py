"""Why a request had no answer, for people."""

import aiohttp

from lanloom.kube.config import why_not_connected


def reason(error: Exception) -> str:
    """Return why there was no answer, for people: aiohttp's own texts show objects of the TLS library."""
    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=OSError() as why):
            return why_not_connected(why, "")
        case aiohttp.ClientConnectorError(os_error=OSError() as why, host=host, port=port):
            return why_not_connected(why, f"{host}:{port}") or str(error)
    return str(error)
