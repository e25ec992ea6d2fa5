"""Certificates for a cluster that has no authority of its own: a small one, and what it issues (X.509, ECDSA P-256).

A node's certificate holds its name as common name and as DNS name, so that whoever dials a member by name knows that it
is that member, whatever its address; the hosts at which clients reach it stand beside. A client's certificate holds a
name only, and may dial nodes, not be one. Nothing here touches files or a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from ipaddress import ip_address
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ORGANISATION: Final = "Veridical"
AUTHORITY_DAYS: Final = 3650
LEAF_DAYS: Final = 397
"""Longer than that is refused by many a TLS library."""
CLOCK_SKEW: Final = timedelta(minutes=5)
NODE, CLIENT = "node", "client"
PEM_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"


class Pair(NamedTuple):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class Described(NamedTuple):
    """What a certificate says. `kind` is `authority`, `node` or `client`, empty for one that is none of ours."""

    name: str
    kind: str
    hosts: tuple[str, ...]
    not_after: datetime
    sha256: str


def new_authority(cluster: str, now: datetime, days: int = AUTHORITY_DAYS) -> Pair:
    """An authority that signs the certificates of that cluster."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"{cluster} authority")
    builder = _dated(name, name, key, now, days).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    return _signed(builder.add_extension(usage, True), key, key)


def issue(
    authority: Pair, kind: str, name: str, hosts: Sequence[str], now: datetime, days: int = LEAF_DAYS
) -> Pair:  # fmt: skip
    """A certificate of that authority for a node (`NODE`, with the hosts at which it is reached) or a `CLIENT`.

    Raises `ValueError` for an authority that is none, or whose key is another's.
    """
    issuer, signer = _authority(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if kind == NODE:
        usages.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
    names = [_host(host) for host in dict.fromkeys((name, *hosts))] if kind == NODE else [x509.DNSName(name)]
    until = min(now + timedelta(days=days), issuer.not_valid_after_utc)
    builder = (
        _dated(_name(name), issuer.subject, key, now, days, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(x509.KeyUsage(True, False, False, False, False, False, False, False, False), True)
        .add_extension(x509.ExtendedKeyUsage(usages), False)
        .add_extension(x509.SubjectAlternativeName(names), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False)
    )
    return _signed(builder, key, signer)


def described(pem: bytes) -> Described:
    """The first certificate of a PEM file. Raises `ValueError` where there is none."""
    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    der = certificate.public_bytes(serialization.Encoding.DER)
    return Described(
        str(names[0].value) if names else "",
        _kind(certificate),
        _hosts(certificate),
        certificate.not_valid_after_utc,
        sha256(der).hexdigest(),
    )


def check(pair: Pair, authorities: bytes, now: datetime) -> Described:
    """What a certificate says that is about to be used. Raises `ValueError` unless all of it fits together now."""
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    key = serialization.load_pem_private_key(pair.key, None)
    if key.public_key() != certificate.public_key():
        raise ValueError("the key is not that of the certificate")
    if now >= certificate.not_valid_after_utc:
        raise ValueError(f"the certificate has expired at {certificate.not_valid_after_utc.isoformat()}")
    if now < certificate.not_valid_before_utc:
        raise ValueError(f"the certificate is not valid before {certificate.not_valid_before_utc.isoformat()}")
    if not any(_signed_by(certificate, issuer) for issuer in x509.load_pem_x509_certificates(authorities)):
        raise ValueError("the certificate was issued by none of the authorities")
    return described(pair.certificate)


def joined(*authorities: bytes) -> bytes:
    """Several authorities as one file, each once: for the time in which the new one replaces the old."""
    found = dict.fromkeys(
        certificate.public_bytes(serialization.Encoding.PEM)
        for pem in authorities
        for certificate in x509.load_pem_x509_certificates(pem)
    )
    return b"".join(found)


def _dated(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    days: int,
    until: datetime | None = None,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(until or now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: CertificateIssuerPrivateKeyTypes
) -> Pair:  # fmt: skip
    certificate = builder.sign(signer, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private)


def _authority(pair: Pair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    key = serialization.load_pem_private_key(pair.key, None)
    if _kind(certificate) != "authority" or not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("this is not the certificate and key of an authority that `veridical certs init` made")
    if key.public_key() != certificate.public_key():
        raise ValueError("the key is not that of the authority's certificate")
    return certificate, key


def _signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _kind(certificate: x509.Certificate) -> str:
    try:
        if certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return "authority"
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return ""
    return NODE if ExtendedKeyUsageOID.SERVER_AUTH in usages else CLIENT


def _hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return (
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    )


def _name(common: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANISATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
