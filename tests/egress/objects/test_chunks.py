"""aws-chunked: what clients make of a body becomes the body again, and what is wrong with it never reaches a store as a whole."""

from __future__ import annotations

import base64
import hashlib
import io
import zlib

import pytest
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum
from hypothesis import given
from hypothesis import strategies as st

from dayfly.egress.http.messages import Body, once
from dayfly.egress.services.objects.chunks import BadChunks, Unchunker, unchunked

CRC32 = "x-amz-checksum-crc32"


def crc(data: bytes) -> str:
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


def chunked(*pieces: bytes, trailers: str = "", signature: str = "") -> bytes:
    lines = b"".join(b"%x%s\r\n%s\r\n" % (len(one), signature.encode(), one) for one in pieces if one)
    return lines + f"0{signature}\r\n{trailers}\r\n".encode()


def read(data: bytes, length: int, trailer: str = "") -> bytes:
    machine = Unchunker(length, trailer)
    found = b"".join(machine.feed(data))
    machine.finish()
    return found


def test_what_botocore_sends_is_read() -> None:
    body = bytes(range(256)) * 5000
    sent = AwsChunkedWrapper(io.BytesIO(body), checksum_cls=Crc32Checksum, checksum_name=CRC32, chunk_size=65536).read()
    assert read(sent, len(body), CRC32) == body


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(1, 30), min_size=1), st.booleans())
def test_it_is_read_in_whatever_pieces_it_comes(pieces: list[bytes], sizes: list[int], is_signed: bool) -> None:
    body = b"".join(pieces)
    signature = f";chunk-signature={'0' * 64}" if is_signed else ""
    more = f"x-amz-trailer-signature:{'a' * 64}\r\n" if is_signed else ""
    sent = chunked(*pieces, signature=signature, trailers=f"{CRC32}:{crc(body)}\r\n{more}")
    machine, found, at = Unchunker(len(body), CRC32), b"", 0
    for number in range(len(sent)):
        size = sizes[number % len(sizes)]
        found += b"".join(machine.feed(sent[at : at + size]))
        at += size
    machine.finish()
    assert found == body


@given(st.binary(max_size=200))
def test_what_is_none_is_refused(data: bytes) -> None:
    try:
        found = read(data, 5)
    except BadChunks:
        return
    assert len(found) == 5


SUMS = {
    "x-amz-checksum-sha1": base64.b64encode(hashlib.sha1(b"hello").digest()).decode(),
    "x-amz-checksum-sha256": base64.b64encode(hashlib.sha256(b"hello").digest()).decode(),
    CRC32: crc(b"hello"),
}


@pytest.mark.parametrize("name", SUMS)
def test_checksums_are_looked_at(name: str) -> None:
    assert read(chunked(b"hello", trailers=f"{name}:{SUMS[name]}\r\n"), 5, name) == b"hello"
    with pytest.raises(BadChunks, match="not what its checksum says"):
        read(chunked(b"hallo", trailers=f"{name}:{SUMS[name]}\r\n"), 5, name)


def test_a_checksum_of_a_kind_that_is_not_known_here_is_not_looked_at() -> None:
    assert read(chunked(b"hello", trailers="x-amz-checksum-crc64nvme:AAAAAAAAAAA=\r\n"), 5, "x-amz-checksum-crc64nvme")


WRONG = {
    "shorter": (chunked(b"hell"), 5, "is shorter"),
    "longer": (chunked(b"hello!"), 5, "is longer"),
    "more behind": (chunked(b"hello") + b"GET / HTTP/1.1\r\n", 5, "goes on behind its end"),
    "cut": (chunked(b"hello")[:-9], 5, "ends before its end"),
    "nothing": (b"", 0, "ends before its end"),
    "no size": (b"hello\r\n", 5, "in the place of a chunk's size"),
    "negative": (b"-5\r\nhello\r\n0\r\n\r\n", 5, "in the place of a chunk's size"),
    "huge": (b"f" * 12 + b"\r\n", 5, "is longer"),
    "endless line": (b"5;" + b"a" * 600, 5, "line without end"),
    "bare line feed": (b"5\nhello\r\n0\r\n\r\n", 5, "CR LF"),
    "chunk too long": (b"5\r\nhello!\r\n0\r\n\r\n", 5, "longer than it says"),
    "another trailer": (chunked(b"hello", trailers="x-amz-acl:public-read\r\n"), 5, "something else than checksums"),
    "many trailers": (chunked(b"hello", trailers="".join(f"x-amz-checksum-a{n}:b\r\n" for n in range(9))), 5, "than checksums"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said(what: str) -> None:
    data, length, why = WRONG[what]
    with pytest.raises(BadChunks, match=why):
        read(data, length)


def test_a_checksum_that_was_announced_must_be_there() -> None:
    with pytest.raises(BadChunks, match="which it announces"):
        read(chunked(b"hello"), 5, CRC32)


async def test_the_last_piece_waits_for_the_checksum() -> None:
    sent = chunked(b"hello", b"world", trailers=f"{CRC32}:{crc(b'other')}\r\n")
    body = unchunked(once(*(sent[at : at + 3] for at in range(0, len(sent), 3))), 10, CRC32)
    found: list[bytes] = []
    with pytest.raises(BadChunks):
        await _collect(body, found)
    whole = b"".join(found)
    assert b"helloworld".startswith(whole)
    assert 0 < len(whole) < 10


async def _collect(body: Body, found: list[bytes]) -> None:
    async for piece in body:
        found.append(piece)
