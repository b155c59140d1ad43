"""What is taken for a certificate, judged without ``ssl``."""

from __future__ import annotations

import base64
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.agent.network.certificate import BEGIN, END, MAX_PEM, checked_certificate
from dayfly.agent.session import BadRequest
from tests.agent.authority import Authority

PEM = Authority().pem
DER = ssl.PEM_cert_to_DER_cert(PEM)


def pem(der: bytes, width: int = 64) -> str:
    body = base64.b64encode(der).decode()
    return "\n".join([BEGIN, *(body[at : at + width] for at in range(0, len(body), width)), END])


def test_a_certificate_is_written_anew_and_is_the_same() -> None:
    assert checked_certificate(PEM) == PEM
    for other in (PEM.replace("\n", "\r\n"), f"\n\n  {PEM}  \n", pem(DER, 76), pem(DER, 10_000)):
        assert checked_certificate(other) == PEM


@pytest.mark.parametrize(
    "text",
    [
        "",
        BEGIN,
        f"{BEGIN}\n{END}",
        f"{BEGIN}\n\n{END}",
        PEM + PEM,
        f"# a comment\n{PEM}",
        PEM + "more",
        PEM.replace(BEGIN, BEGIN + " " + BEGIN),
        PEM.replace("\n", "\n!", 1),
        PEM.replace("\n", "\né", 1),
        PEM.replace("\n", "\n=", 1),
        pem(DER + b"\0"),
        pem(DER[:-1]),
        pem(DER[:1] + b"\x80" + DER[2:]),
        pem(DER[:1] + b"\xff" + DER[2:]),
        pem(b"\x31" + DER[1:]),
        pem(b"\x30\x00"),
        pem(b"\x30"),
        pem(b"\x30\x06\x30\x00\x30\x00\x04\x00"),
        PEM + " " * MAX_PEM,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        checked_certificate(text)


@given(st.text() | st.binary().map(pem) | st.binary().map(lambda tail: pem(DER + tail)))
def test_whatever_comes_it_is_refused_or_one_certificate(text: str) -> None:
    try:
        found = checked_certificate(text)
    except BadRequest:
        return
    assert found.count(BEGIN) == found.count(END) == 1
    assert found.isascii()


@given(st.integers(0, len(DER) - 1), st.integers(0, 255))
def test_of_a_damaged_one_only_what_it_is_made_of_can_be_wrong(at: int, byte: int) -> None:
    damaged = DER[:at] + bytes([byte]) + DER[at + 1 :]
    try:
        assert ssl.PEM_cert_to_DER_cert(checked_certificate(pem(damaged))) == damaged
    except BadRequest:
        assert damaged != DER
