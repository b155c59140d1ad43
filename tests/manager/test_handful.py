"""Small files as one archive, read by the very reader that is inside."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dayfly.agent import tar
from dayfly.bucket.names import BadName, file_below
from dayfly.manager.handful import MOST_BYTES, MOST_FILES, Handful

NAMES = st.text(min_size=1, max_size=120)


async def unpacked(handful: Handful) -> dict[str, bytes]:
    data = b"".join([piece async for piece in handful.taken()])
    at = 0

    def read(size: int) -> bytes:
        nonlocal at
        at += size
        return data[at - size : at]

    found = {}
    while (member := tar.next_member(read)) is not None:
        assert (member.kind, member.mode) == (tar.FILE, 0o644)
        found[member.name.decode()] = read(member.size)
        read(tar.padding(member.size))
    return found


@given(st.dictionaries(NAMES, st.binary(max_size=1500), max_size=5))
async def test_what_goes_in_comes_out(files: dict[str, bytes]) -> None:
    handful, expected = Handful(), {}
    for name, data in files.items():
        try:
            path = file_below("", name)
        except BadName:
            continue
        if path and not path.endswith("/"):
            handful.add(path, data)
            expected[path] = data
    assert await unpacked(handful) == expected
    assert not handful
    assert await unpacked(handful) == {}


def test_it_is_full_by_bytes_or_by_number() -> None:
    by_bytes, by_number = Handful(), Handful()
    by_bytes.add("a", bytes(MOST_BYTES - 1))
    assert not by_bytes.full
    by_bytes.add("b", b"x")
    assert by_bytes.full
    for number in range(MOST_FILES):
        assert not by_number.full
        by_number.add(str(number), b"")
    assert by_number.full
