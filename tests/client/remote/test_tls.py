"""Over TLS: the certificate is checked, for calls and for ports alike."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dayfly import AsyncSandbox, ServerUnreachable
from dayfly.server.config import Tls
from tests.machine import gvisor_with, short_directory
from tests.server.house import TINY, House, house

pytestmark = pytest.mark.gvisor


def a_certificate(directory: Path) -> Tls:
    """Of 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    tls = Tls(certificate=directory / "cert.pem", key=directory / "key.pem")
    tls.certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    tls.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    return tls


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[House]:
    with (
        gvisor_with("") as boundary,
        short_directory() as directory,
        house(boundary, directory, tls=a_certificate(tmp_path)) as running,
    ):
        yield running


async def test_a_certificate_is_checked_for_calls_and_ports(
    secured: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = secured.key()
    assert secured.url.startswith("https://")
    with pytest.raises(ServerUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
        await AsyncSandbox(TINY, url=secured.url, api_key=key).open()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    async with AsyncSandbox(TINY, url=secured.url, api_key=key) as sandbox:
        code = "import socket, threading; s = socket.create_server(('127.0.0.1', 80 * 100))\n"
        code += "threading.Thread(target=lambda: s.accept()[0].sendall(b'hello'), daemon=True).start()"
        assert (await sandbox.run_code(code)).ok
        async with await sandbox.connect_port(8000) as port:
            assert await port.read() == b"hello"
