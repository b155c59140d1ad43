"""Certificates of a sandbox's own authority, for the hosts whose TLS the gateway ends. Of the gateway's process."""

from __future__ import annotations

import os
import ssl
from collections import OrderedDict
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from dayfly.egress.authority import BACKWARDS
from dayfly.egress.terms import Authority

__all__ = ["Certificates"]

MOST = 256
"""Hosts whose certificates are kept: rules with a star stand for many."""


class Certificates:
    """``context`` for each host. Raises ``ValueError`` for what is no authority."""

    def __init__(self, authority: Authority) -> None:
        self._issuer = x509.load_pem_x509_certificate(authority.certificate.encode("ascii"))
        key = serialization.load_pem_private_key(authority.key.encode("ascii"), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("not a key on a curve")
        self._issuing_key = key
        self._key = ec.generate_private_key(ec.SECP256R1())  # one for all hosts of the sandbox
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()

    def context(self, host: str) -> ssl.SSLContext:
        """For a server that is ``host``, in canonical form, and nobody else: a handshake has to name it."""
        if host not in self._contexts:
            self._contexts[host] = self._made(host)
            if len(self._contexts) > MOST:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(host)
        return self._contexts[host]

    def _made(self, host: str) -> ssl.SSLContext:
        def named(tls: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> int | None:
            right = name is not None and name.lower().removesuffix(".") == host
            return None if right else int(ssl.AlertDescription.ALERT_DESCRIPTION_UNRECOGNIZED_NAME)

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.sni_callback = named
        key = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        _load(context, self._leaf(host).public_bytes(serialization.Encoding.PEM), key)
        return context

    def _leaf(self, host: str) -> x509.Certificate:
        public = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))  # a common name has room for 64 characters, and nobody reads it
            .issuer_name(self._issuer.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.now(UTC) - BACKWARDS)
            .not_valid_after(self._issuer.not_valid_after_utc)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._issuing_key.public_key()), critical=False
            )
            .sign(self._issuing_key, hashes.SHA256())
        )


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """OpenSSL takes them from files only, and this process writes none: from pipes, then, which hold them whole."""
    ends = [_pipe_with(data) for data in (certificate, key)]
    try:
        context.load_cert_chain(*(f"/proc/self/fd/{end}" for end in ends))
    finally:
        for end in ends:
            os.close(end)


def _pipe_with(data: bytes) -> int:
    """The reading end of a pipe that holds ``data`` and its end. A page is the least that a pipe has room for."""
    if len(data) > 4096:
        raise ValueError("no certificate of one name is that large")
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        os.write(writing, data)
    finally:
        os.close(writing)
    return reading
