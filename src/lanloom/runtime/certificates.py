"""Self-signed certificates for servers that only Lanloom and an API server talk to, and the webhooks' certificate.

A bundle holds a CA of its own and one server certificate. The CA's private key is dropped as soon as it has signed:
no more can be issued under it, and a renewed bundle is a new CA. A Secret holds the bundle. (The embedded server keeps
its CA instead, because kubeconfigs name that: `lanloom_embedded.identity`.)

All replicas of the manager share the certificate of the webhooks: the first one issues it, and the leader renews it.
The Secret also holds a path that can't be guessed, under which the webhooks are registered. An API server shows no
certificate of its own to webhooks unless its administrator gave it one. But it knows that path, and apart from it only
readers of registrations do. So no pod that reaches the port can have requests judged, noted, and users listed.
"""

import asyncio
import base64
import math
import re
import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from lanloom.api.core import SECRETS, Secret
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from lanloom.kube.ports import Client

log = structlog.get_logger(__name__)

LIFETIME_DAYS = 365
RENEWAL_DAYS = 60
"""A bundle with fewer days left is renewed."""

DAY = 86_400

_CLOCK_SKEW = timedelta(hours=1)


class Bundle(Struct, frozen=True):
    """PEM texts: the CA's certificate, the server's certificate, the server's private key."""

    ca: bytes
    certificate: bytes
    key: bytes


class Authority(Struct, frozen=True):
    """PEM texts of a CA: its certificate, and its private key; empty for one that can sign nothing more."""

    certificate: bytes
    key: bytes


def issue(names: Sequence[str], now: float) -> Bundle:
    """Return a bundle for a server that is reached under `names` (host names or IP addresses)."""
    return sign(new_authority(now, LIFETIME_DAYS), names, now)


def new_authority(now: float, days: int) -> Authority:
    """Return a CA that lives for so many days."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _name(f"Lanloom CA {int(now)}")
    start = datetime.fromtimestamp(now, UTC)
    certificate = (
        _builder(name, name, key.public_key(), start, start + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(_pem(certificate), _private(key))


def sign(authority: Authority, names: Sequence[str], now: float) -> Bundle:
    """Return a bundle with a new server certificate of a CA, which ends with the CA at the latest."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    key, start = ec.generate_private_key(ec.SECP256R1()), datetime.fromtimestamp(now, UTC)
    end = min(start + timedelta(days=LIFETIME_DAYS), issuer.not_valid_after_utc)
    certificate = (
        _builder(_name(names[0][:64]), issuer.subject, key.public_key(), start, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return Bundle(authority.certificate, _pem(certificate), _private(key))


def expires(certificate: bytes) -> float:
    """Return the end of a PEM certificate, in seconds since the epoch. Raises ValueError for anything else."""
    return validity(certificate)[1]


def validity(certificate: bytes) -> tuple[float, float]:
    """Return the start and the end of a PEM certificate, as `expires` does."""
    read = x509.load_pem_x509_certificate(certificate)
    return read.not_valid_before_utc.timestamp(), read.not_valid_after_utc.timestamp()


def authority_ends(certificates: bytes) -> float:
    """Return the end of the last one of several CAs in a PEM text, as `expires` does."""
    return max(each.not_valid_after_utc.timestamp() for each in x509.load_pem_x509_certificates(certificates))


def due(certificate: bytes, now: float, days: int = RENEWAL_DAYS) -> bool:
    """Return whether a certificate must be renewed: it ends within so many days, or begins only later.

    The second is so after the clock was ahead for a while. A certificate that can't be read is due, too.
    """
    try:
        start, end = validity(certificate)
    except ValueError:
        return True
    return not start <= now <= end - days * DAY


_STEP_SECONDS = 1.0
_JUMP_SECONDS = 5.0


async def wait_for_check(seconds: float, now: Callable[[], float]) -> None:
    """Wait so many seconds, or until the clock is set: a certificate may have ended at that moment.

    `now` gives seconds since the epoch. It is compared with the monotonic clock, which can't be set.
    """
    clock = asyncio.get_running_loop().time
    end, ahead = clock() + seconds, now() - clock()
    for _ in range(math.ceil(seconds / _STEP_SECONDS)):
        await asyncio.sleep(min(end - clock(), _STEP_SECONDS))
        if clock() >= end or abs(now() - clock() - ahead) >= _JUMP_SECONDS:
            return


def is_whole(bundle: Bundle) -> bool:
    """Return whether the parts belong together: the key is the certificate's, and the first CA issued that."""
    try:
        certificate = x509.load_pem_x509_certificate(bundle.certificate)
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(bundle.ca))
        key = serialization.load_pem_private_key(bundle.key, None)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return key.public_key() == certificate.public_key()


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _CLOCK_SKEW)
        .not_valid_after(end)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


_PARTS = ("ca.crt", "tls.crt", "tls.key")
_PEM_END = b"-----END CERTIFICATE-----\n"


def bundle_of(secret: Secret) -> Bundle:
    """Return the Secret's bundle; parts that were removed are empty, so that it is not whole."""
    ca, certificate, key = (base64.b64decode(secret.data.get(name, "")) for name in _PARTS)
    return Bundle(ca, certificate, key)


def secret_data(bundle: Bundle) -> dict[str, str]:
    """Return the data of the Secret for a bundle."""
    parts = zip(_PARTS, (bundle.ca, bundle.certificate, bundle.key), strict=True)
    return {name: base64.b64encode(text).decode() for name, text in parts}


def first_certificate(pem: bytes) -> bytes:
    """Return the first of the certificates of a PEM text; empty if there is none."""
    head, end, _ = pem.partition(_PEM_END)
    return head + end if end else b""


SECRET_NAME = "lanloom-webhook"
RETRY_SECONDS = 2.0

_PATH = "path"
_PATH_FORM = re.compile(r"[0-9a-f]{32}", re.ASCII)


def path_of(secret: Secret) -> str:
    """Return the webhooks' path, one segment of it; empty if it was removed or damaged."""
    try:
        text = base64.b64decode(secret.data.get(_PATH, "")).decode("ascii")
    except ValueError:
        return ""
    return text if _PATH_FORM.fullmatch(text) else ""


def _new_path() -> dict[str, str]:
    return {_PATH: base64.b64encode(secrets.token_hex(16).encode()).decode()}


class Credentials:
    """The certificate for some host names, and a path. `now` gives seconds since the epoch."""

    def __init__(self, client: Client, names: tuple[str, ...], *, now: Callable[[], float]) -> None:
        self._client = client
        self._names = names
        self._now = now

    async def at_last(self) -> Bundle:
        """Return the certificate, asked for until the server gives it."""
        while True:
            try:
                return await self.current()
            except KubeError as error:
                report = log.debug if error.reported else log.warning
                report("webhook-certificate-not-read", secret=SECRET_NAME, error=str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def current(self) -> Bundle:
        """Return the certificate; made, or renewed when it is due or damaged. Raises KubeError."""
        try:
            secret = await self._client.get(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)
        except NotFound:
            return await self._first()
        bundle = bundle_of(secret)
        if not is_whole(bundle) or due(bundle.certificate, self._now()):
            return await self._renewed(secret, bundle)
        if not path_of(secret):
            await self._change(secret, _new_path())
        return bundle

    async def _renewed(self, secret: Secret, old: Bundle) -> Bundle:
        """Renew the bundle, and keep the old CA in it: replicas may still present the old certificate."""
        fresh = issue(self._names, self._now())
        authority = fresh.ca + (first_certificate(old.ca) if is_whole(old) else b"")
        renewed = Bundle(authority, fresh.certificate, fresh.key)
        if not await self._change(secret, secret_data(renewed) | ({} if path_of(secret) else _new_path())):
            return await self.current()
        log.info("webhook-certificate-renewed")
        return renewed

    async def _change(self, secret: Secret, data: dict[str, str]) -> bool:
        """Return False if another replica was faster."""
        patch = {"metadata": {"resourceVersion": secret.metadata.resource_version}, "data": data}
        try:
            await self._client.patch(SECRETS, SECRET_NAME, patch, LANLOOM_NAMESPACE)
        except Conflict:
            return False
        return True

    async def _first(self) -> Bundle:
        bundle = issue(self._names, self._now())
        body = {
            "metadata": {"name": SECRET_NAME, "namespace": LANLOOM_NAMESPACE},
            "type": "kubernetes.io/tls",
            "data": secret_data(bundle) | _new_path(),
        }
        try:
            await self._client.create(SECRETS, body, LANLOOM_NAMESPACE)
        except AlreadyExists:
            return await self.current()
        return bundle
