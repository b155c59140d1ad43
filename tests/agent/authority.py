"""Certificate authorities made for a test, and a web server behind tunnels that shows their certificates."""

from __future__ import annotations

import datetime
import ssl
import tempfile
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.agent.host import Taken

PEM = serialization.Encoding.PEM
DAY = datetime.timedelta(days=1)


class Authority:
    """``pem`` is its own certificate."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._begun(self._name, self._key, ca=True).add_extension(_key_usage(ca=True), critical=True)
        self.certificate = made.sign(self._key, hashes.SHA256())
        self.pem = self.certificate.public_bytes(PEM).decode()

    def server(self, *names: str) -> ssl.SSLContext:
        """For a server of these names."""
        key = ec.generate_private_key(ec.SECP256R1())
        begun = self._begun(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])]), key, ca=False)
        begun = begun.add_extension(_key_usage(ca=False), critical=True)
        begun = begun.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        begun = begun.add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        own = begun.sign(self._key, hashes.SHA256()).public_bytes(PEM)
        secret = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "chain.pem"
            file.write_bytes(own + secret)
            context.load_cert_chain(file)
        return context

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca, key_cert_sign=ca, crl_sign=ca, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


REFS = b"001e# service=git-upload-pack\n0000003f" + b"7" * 40 + b" refs/heads/main\0 \n0000"


class SecureWeb:
    """Answers every name in TLS, with ``context``, with one answer to one request. ``asked`` has the request lines that came."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.asked: list[str] = []

    def serve(self, taken: Taken) -> None:
        if taken.op != "tunnel":
            taken.finish()
            return
        taken.connected()
        taken.react = _Conversation(self).react


class _Conversation:
    def __init__(self, web: SecureWeb) -> None:
        self._web = web
        self._read, self._written = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = web.context.wrap_bio(self._read, self._written, server_side=True)
        self._taken = 0
        self._request = b""

    def react(self, taken: Taken) -> None:
        if taken.done:
            return
        self._read.write(taken.stdin[self._taken :])
        self._taken = len(taken.stdin)
        try:
            self._go_on()
            over = True
        except ssl.SSLWantReadError:
            over = False
        except ssl.SSLError:  # the other side does not believe us
            over = True
        if data := self._written.read():
            taken.answer(data)
        if over or taken.cancelled or 0 in taken.ended:
            taken.finish()

    def _go_on(self) -> None:
        self._tls.do_handshake()
        while b"\r\n\r\n" not in self._request:
            if not (more := self._tls.read(65536)):  # it has said goodbye
                return
            self._request += more
        line = self._request.split(b"\r\n")[0].decode()
        self._web.asked.append(line)
        body = REFS if "/info/refs" in line else b"<html>welcome</html>"
        kind = b"application/x-git-upload-pack-advertisement" if "/info/refs" in line else b"text/html"
        head = b"Content-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (kind, len(body))
        self._tls.write(b"HTTP/1.1 200 OK\r\n" + head + body)
        with suppress(ssl.SSLError):  # says goodbye, and waits for no answer
            self._tls.unwrap()
