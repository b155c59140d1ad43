"""A sandbox's own authority, and the certificates that the gateway makes of it."""

from __future__ import annotations

import ssl
import sys
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from dayfly.egress import certificates
from dayfly.egress.authority import make_authority
from dayfly.egress.certificates import Certificates
from dayfly.egress.terms import Authority, Terms
from dayfly.errors import HostError
from dayfly.limits import LONGEST_LIFE, LONGEST_PAUSE
from tests.egress.http.desk import client_context


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> str | None:
    """A handshake in memory: the version, or ``None`` where the client is not satisfied."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=name)
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(8):
        for side in (one, other):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                return None
    return one.version()


def test_a_certificate_is_for_its_host_and_of_its_authority() -> None:
    mine, others = make_authority(), make_authority()
    server = Certificates(mine).context("api.example.com")
    assert shaken(server, client_context(mine), "api.example.com") == "TLSv1.3"
    assert shaken(server, client_context(mine), "other.example.com") is None
    assert shaken(server, client_context(others), "api.example.com") is None


def test_an_authority_outlives_every_sandbox_and_makes_no_other_authority() -> None:
    made = x509.load_pem_x509_certificate(make_authority().certificate.encode())
    longest = timedelta(seconds=LONGEST_LIFE + LONGEST_PAUSE)
    assert made.not_valid_after_utc - datetime.now(UTC) > longest - timedelta(minutes=5)
    constraints = made.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)


def test_a_name_that_is_too_long_for_a_common_name_is_a_host_like_others() -> None:
    mine = make_authority()
    host = ".".join(["a" * 60, "b" * 60, "example.com"])
    assert shaken(Certificates(mine).context(host), client_context(mine), host) == "TLSv1.3"


def test_hosts_under_a_star_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "MOST", 3)
    made = Certificates(make_authority())
    first = made.context("a.example.com")
    assert made.context("a.example.com") is first
    for name in "bcd":
        made.context(f"{name}.example.com")
    assert made.context("a.example.com") is not first
    assert len(made._contexts) == 3


def test_without_the_library_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(HostError, match="cryptography") as refused:
        make_authority()
    assert "dayfly[tls]" in str(refused.value.remedy)


def test_keys_and_secrets_are_in_no_text() -> None:
    made = make_authority()
    terms = Terms(authority=made, secrets={"crm": "canary"}, indexes={"python": "https://me:canary@index.example/"})
    for text in (repr(terms), str(terms), repr(made)):
        assert "canary" not in text
        assert "PRIVATE KEY" not in text


def test_what_is_no_authority_is_refused() -> None:
    good = make_authority()
    with pytest.raises(ValueError, match="PEM"):
        Certificates(Authority(certificate=good.certificate, key="no key"))
