"""Certificates for servers that only Lanloom and an API server talk to."""

from cryptography import x509

from lanloom.runtime.certificates import (
    LIFETIME_DAYS,
    RENEWAL_DAYS,
    Bundle,
    due,
    expires,
    issue,
)

NOW = 1_800_000_000.0
DAY = 86_400


def test_a_bundle_names_its_server() -> None:
    """The server's certificate is valid for every name and address that was asked for, and for no other."""
    certificate = x509.load_pem_x509_certificate(issue(("lanloom.example", "127.0.0.1"), NOW).certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["lanloom.example"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_the_authority_signed_the_certificate_and_can_sign_no_chain() -> None:
    """The bundle's CA signed the certificate, and may sign no further CAs."""
    bundle = issue(("a",), NOW)
    authority = x509.load_pem_x509_certificate(bundle.ca)
    x509.load_pem_x509_certificate(bundle.certificate).verify_directly_issued_by(authority)
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)


def test_a_bundle_is_due_some_time_before_it_ends() -> None:
    """A certificate is renewed while it still has weeks to live, and not before."""
    bundle = issue(("a",), NOW)
    assert expires(bundle.certificate) == NOW + LIFETIME_DAYS * DAY
    assert not due(bundle.certificate, NOW + (LIFETIME_DAYS - RENEWAL_DAYS - 1) * DAY)
    assert due(bundle.certificate, NOW + (LIFETIME_DAYS - RENEWAL_DAYS + 1) * DAY)


def test_rubbish_is_due() -> None:
    """What is no certificate is replaced."""
    assert due(b"rubbish", NOW)


def test_every_bundle_has_keys_of_its_own() -> None:
    """Two bundles share neither CA nor key."""
    first, second = issue(("a",), NOW), issue(("a",), NOW)
    assert not {first.ca, first.key} & {second.ca, second.key}
    assert isinstance(first, Bundle)
