"""A certificate authority for one sandbox: made outside, kept in memory, and believed inside of that sandbox alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dayfly.egress.terms import Authority
from dayfly.errors import HostError
from dayfly.limits import LONGEST_LIFE

__all__ = ["make_authority"]

BACKWARDS = timedelta(days=1)
"""For clocks that differ."""


def make_authority() -> Authority:
    """A new one, which outlives every sandbox. Raises ``HostError`` where the library for it is missing."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        remedy = "pip install 'dayfly[tls]', or leave methods, paths and inject out of the rules"
        raise HostError("looking inside of TLS needs the library cryptography", remedy=remedy) from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "this sandbox's gateway (dayfly)")])
    now = datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKWARDS)
        .not_valid_after(now + timedelta(seconds=2 * LONGEST_LIFE))  # lived and paused
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    return Authority(
        certificate=certificate.public_bytes(serialization.Encoding.PEM).decode("ascii"),
        key=key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode("ascii"),
    )
