"""Self-signed certificates for servers that only Lanloom and an API server talk to, and the webhooks' certificate.

A bundle holds a CA of its own and one server certificate. The CA's private key is dropped as soon as it has signed:
no more can be issued under it, and a renewed bundle is a new CA. A Secret holds the bundle. (The embedded server keeps
its CA instead, because kubeconfigs name that: `lanloom_embedded.identity`.)

All replicas of the manager share the certificate of the webhooks: the first one issues it, and the leader renews it.
No write is refused meanwhile: API servers know the next CA, besides that of the certificate in use, before any replica
presents a certificate of it.
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
from contextlib import suppress
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


async def wait_for_check(
    seconds: float, now: Callable[[], float], changed: asyncio.Event | None = None
) -> None:
    """Wait so many seconds, or until the clock is set: a certificate may have ended at that moment.

    `now` gives seconds since the epoch. It is compared with the monotonic clock, which can't be set. With `changed`,
    wait until that is set at the longest.
    """
    clock = asyncio.get_running_loop().time
    end, ahead = clock() + seconds, now() - clock()
    for _ in range(math.ceil(seconds / _STEP_SECONDS)):
        with suppress(TimeoutError):
            async with asyncio.timeout(min(end - clock(), _STEP_SECONDS)):
                await (changed or asyncio.Event()).wait()
                return
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


def covers(certificate: bytes, name: str) -> bool:
    """Return whether a PEM certificate is for this host name or IP address."""
    try:
        read = x509.load_pem_x509_certificate(certificate)
        found = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    return _alternative(name) in found


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
SPREAD_SECONDS = 10.0
"""How long API servers may take to learn of a registration."""

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
    """The certificate for some host names, and a path. `now` gives seconds since the epoch.

    A renewal has two steps, at checks of the leader: the CA of the next certificate is added to the Secret, so that it
    is registered; once API servers have known it for a while (`registered`), that certificate takes the place of the
    one in use. A leader that ends between them leaves a CA that signed nothing, and the next leader begins again.
    """

    def __init__(self, client: Client, names: tuple[str, ...], *, now: Callable[[], float]) -> None:
        self._client = client
        self._names = names
        self._now = now
        self._next: Bundle | None = None
        self._known_since = math.inf
        self._complaint = ""

    async def at_last(self) -> Bundle:
        """Return the certificate, asked for until the server gives it."""
        while True:
            try:
                return bundle_of(await self._usable())
            except KubeError as error:
                report = log.debug if error.reported else log.warning
                report("webhook-certificate-not-read", secret=SECRET_NAME, error=str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def keep(self) -> Secret:
        """Return the Secret; made, replaced if it can't serve, and renewed when it is due. Raises KubeError.

        A renewal that the API server refuses is logged: the certificate serves on until its end.
        """
        secret = await self._usable()
        try:
            renewed = await self._renewed(secret)
        except KubeError as error:
            self._complain(secret, error)
            return secret
        self._complaint = ""
        return renewed

    def registered(self, authorities: bytes) -> None:
        """Note that these CAs (PEM) are registered at API servers."""
        if self._next is not None and self._next.ca in authorities:
            self._known_since = min(self._known_since, asyncio.get_running_loop().time())

    async def _usable(self) -> Secret:
        """Return the Secret with a certificate that can be presented now, and a path; either is made if need be."""
        try:
            secret = await self._client.get(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)
        except NotFound:
            return await self._first()
        bundle = bundle_of(secret)
        if not is_whole(bundle) or due(bundle.certificate, self._now(), days=0):
            return await self._replaced(secret, bundle)
        if not path_of(secret):
            return await self._changed(secret, _new_path())
        return secret

    async def _renewed(self, secret: Secret) -> Secret:
        bundle = bundle_of(secret)
        if not covers(bundle.certificate, self._names[0]):
            return await self._replaced(secret, bundle)
        if not due(bundle.certificate, self._now()):
            self._next = None
            return secret
        if self._next is None or self._next.ca not in bundle.ca:
            self._next, self._known_since = issue(self._names, self._now()), math.inf
            both = first_certificate(bundle.ca) + self._next.ca
            return await self._changed(secret, {"ca.crt": base64.b64encode(both).decode()})
        if asyncio.get_running_loop().time() - self._known_since < SPREAD_SECONDS:
            return secret
        return await self._replaced(secret, bundle, self._next)

    async def _replaced(self, secret: Secret, old: Bundle, fresh: Bundle | None = None) -> Secret:
        """Replace the bundle, and keep the old CA in it: replicas may still present the old certificate."""
        fresh = fresh or issue(self._names, self._now())
        authority = fresh.ca + (first_certificate(old.ca) if is_whole(old) else b"")
        data = secret_data(Bundle(authority, fresh.certificate, fresh.key))
        found = await self._changed(secret, data | ({} if path_of(secret) else _new_path()))
        if found.data.get("tls.crt") == data["tls.crt"]:
            log.info("webhook-certificate-renewed")
        return found

    async def _changed(self, secret: Secret, data: dict[str, str]) -> Secret:
        """Return the Secret with this data, or as another replica wrote it, which was faster."""
        patch = {"metadata": {"resourceVersion": secret.metadata.resource_version}, "data": data}
        try:
            return await self._client.patch(SECRETS, SECRET_NAME, patch, LANLOOM_NAMESPACE)
        except Conflict:
            return await self._usable()

    async def _first(self) -> Secret:
        body = {
            "metadata": {"name": SECRET_NAME, "namespace": LANLOOM_NAMESPACE},
            "type": "kubernetes.io/tls",
            "data": secret_data(issue(self._names, self._now())) | _new_path(),
        }
        try:
            return await self._client.create(SECRETS, body, LANLOOM_NAMESPACE)
        except AlreadyExists:
            return await self._usable()

    def _complain(self, secret: Secret, error: KubeError) -> None:
        ends = datetime.fromtimestamp(expires(bundle_of(secret).certificate), UTC)
        remedy = "; it is immutable: delete it, and a manager makes another one" if secret.immutable else ""
        text = f"Secret {SECRET_NAME}, whose certificate ends at {ends:%Y-%m-%d}, is not renewed: {error}{remedy}"
        report = log.debug if error.reported or text == self._complaint else log.warning
        self._complaint = text
        report("webhook-certificate-not-renewed", error=text)
