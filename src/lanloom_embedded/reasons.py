"""Why a request had no answer, for people."""

import errno

import aiohttp
from aiohttp.http_exceptions import ContentEncodingError

from lanloom.kube.config import why_not_connected


def reason(error: Exception) -> str:
    """Return why there was no whole answer, for people: aiohttp's own texts show objects of its own and of TLS."""
    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=OSError() as why):
            return why_not_connected(why, "")
        case aiohttp.ClientConnectorError(os_error=OSError() as why, host=host, port=port):
            return why_not_connected(why, f"{host}:{port}") or str(error)
        case aiohttp.ClientHttpProxyError(status=status, message=message):
            return f"the proxy answered {status} {message}; check its address and your rights there"
        case aiohttp.ClientResponseError() | aiohttp.ClientPayloadError(__cause__=ContentEncodingError()):
            return "what came is no answer of HTTP; check the address, and proxies on the way"
        case aiohttp.ClientPayloadError():
            return "the connection broke in the middle of the answer; try again"
        case (
            aiohttp.ServerDisconnectedError()
            | ConnectionError()
            | OSError(errno=errno.ECONNRESET | errno.EPIPE | errno.ECONNABORTED)
        ):
            return "the connection broke before there was an answer; try again"
    return str(error)
