"""TLS towards the API server, as its configuration asks, and in words why a connection was not made."""

import os
import socket
import ssl

import aiohttp

from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import ConfigError
from lanloom.kube.memory import memory_file


def client_context(config: ClusterConfig) -> ssl.SSLContext:
    """The context for connections. Raises ConfigError for certificates that can't be used."""
    try:
        context = ssl.create_default_context(cadata=config.ca.decode("ascii") if config.ca else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"certificate-authority of {config.server} is not a PEM certificate: {error}"
        ) from None
    if config.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if config.client_certificate:
        _load_client_certificate(context, config)
    return context


def _load_client_certificate(context: ssl.SSLContext, config: ClusterConfig) -> None:
    try:
        with memory_file(config.client_certificate + b"\n" + config.client_key) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        raise ConfigError(
            f"client-certificate or client-key of {config.server} can't be used: {error}"
        ) from None


def reason(error: Exception) -> str:
    """Why there was no answer, for people: aiohttp's own texts show objects of the TLS library."""
    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as why):
            return f"the server's certificate is not trusted: {why.verify_message}"
        case aiohttp.ClientConnectorError(os_error=socket.gaierror(strerror=str(why)), host=host, port=port):
            return f"cannot connect to {host}:{port}: {why.lower()}"
        case aiohttp.ClientConnectorError(os_error=OSError(errno=int(number)), host=host, port=port):
            return f"cannot connect to {host}:{port}: {os.strerror(number).lower()}"
    return str(error)
