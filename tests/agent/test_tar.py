"""The tar codec alone, against Python's own."""

from __future__ import annotations

import io
import os
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.agent import tar
from dayfly.agent.session import Refused
from dayfly.agent.tar import Member

names = st.binary(min_size=1, max_size=300).map(lambda raw: raw.replace(b"\0", b"0").strip(b"/") or b"n")
members = st.builds(
    Member,
    names,
    st.sampled_from([tar.FILE, tar.SYMLINK]),
    st.integers(0, 0o777),
    st.integers(0, 2**33 - 1),
    st.just(0),
    names,
)


@given(st.lists(members, max_size=5))
def test_pythons_tarfile_reads_what_is_written(found: list[Member]) -> None:
    data = b"".join(map(tar.header, found)) + tar.END
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as archive:
        read = [(os.fsencode(one.name), one.mode, one.mtime) for one in archive]
    assert read == [(one.name, one.mode, one.modified) for one in found]


@given(st.lists(members, max_size=5))
def test_what_is_written_is_read_back(found: list[Member]) -> None:
    read = io.BytesIO(b"".join(map(tar.header, found)) + tar.END).read
    for one in found:
        again = tar.next_member(read)
        assert again is not None
        assert (again.name, again.kind, again.mode, again.modified, again.target) == (
            one.name, one.kind, one.mode, one.modified, one.target,
        )  # fmt: skip
    assert tar.next_member(read) is None


def test_sizes_beyond_eight_gib_are_written_and_read() -> None:
    size = 9 << 30
    data = tar.header(Member(b"huge", tar.FILE, 0o644, 0, size))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        first = archive.next()
    assert first is not None
    assert first.size == size
    again = tar.next_member(io.BytesIO(data).read)
    assert again is not None
    assert again.size == size


@given(st.binary(max_size=4096))
def test_noise_is_refused_or_the_end_and_nothing_else(data: bytes) -> None:
    try:
        while tar.next_member(io.BytesIO(data).read) is not None:
            break
    except Refused:
        return


@given(members, st.integers(0, 511), st.integers(1, 255))
def test_a_changed_header_is_refused_or_still_a_member(member: Member, where: int, change: int) -> None:
    data = bytearray(tar.header(member) + tar.END)
    data[where] ^= change
    try:
        tar.next_member(io.BytesIO(bytes(data)).read)
    except Refused:
        return


def test_an_extended_header_that_would_take_much_memory_is_refused() -> None:
    block = tar._block(Member(b"x", tar.PAX, 0o644, 0, 1 << 30))
    with pytest.raises(Refused, match="extended header"):
        tar.next_member(io.BytesIO(block + bytes(10_000)).read)


def test_an_archive_without_an_end_is_cut_short() -> None:
    with pytest.raises(Refused):
        tar.next_member(io.BytesIO(b"").read)
