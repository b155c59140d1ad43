"""The stream over a pair of pipes, without a process behind it."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayfly.boundaries.pipes import FAIR_BYTES, ChildEnds, PipeStream, open_stream


@pytest.fixture
def pair() -> Iterator[tuple[PipeStream, ChildEnds]]:
    stream, ends = open_stream()
    yield stream, ends
    stream.close()
    ends.close()


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@given(st.lists(st.binary(max_size=5000), max_size=200), st.integers(1, 70_000))
@settings(max_examples=30, deadline=None)
def test_all_buffers_arrive_joined_and_in_order(buffers: list[bytes], limit: int) -> None:
    async def both_ways() -> bytes:
        stream, ends = open_stream()
        try:
            await stream.write(*buffers)
            expected = sum(map(len, buffers))
            sent = b""
            while len(sent) < expected:
                sent += os.read(ends.stdin, 1 << 20)
            os.write(ends.stdout, sent or b"-")
            received = b""
            while len(received) < max(expected, 1):
                piece = await stream.read(limit)
                assert 1 <= len(piece) <= limit
                received += piece
            return received if expected else b""
        finally:
            stream.close()
            ends.close()

    if sum(map(len, buffers)) < 60_000:  # what a pipe holds for sure: the test reads only after writing
        assert asyncio.run(both_ways()) == b"".join(buffers)


async def test_what_can_be_written_now_is_and_nobody_waits_for_the_rest(pair: tuple[PipeStream, ChildEnds]) -> None:
    stream, ends = pair
    assert stream.write_now(b"one ", b"two") == 7
    assert os.read(ends.stdin, 100) == b"one two"
    held = 0
    while done := stream.write_now(b"x" * 100_000):
        held += done
    assert held >= 65536, "a full pipe takes nothing, and says so"
    assert len(os.read(ends.stdin, 1 << 20)) == held
    stream.close()
    with pytest.raises(BrokenPipeError):
        stream.write_now(b"late")


async def test_a_reader_that_took_all_there_was_hears_of_what_comes_later(pair: tuple[PipeStream, ChildEnds]) -> None:
    stream, ends = pair
    for piece in (b"first", b"second", b"x" * 200_000):
        os.write(ends.stdout, piece[:65536])
        found = b""
        while len(found) < len(piece[:65536]):
            found += await asyncio.wait_for(stream.read(1 << 20), 5)
        assert found == piece[:65536]
    reading = asyncio.ensure_future(stream.read(10))
    await asyncio.sleep(0)
    os.write(ends.stdout, b"late")
    assert await asyncio.wait_for(reading, 5) == b"late"


async def test_closing_wakes_a_waiting_reader_with_end_of_file(pair: tuple[PipeStream, ChildEnds]) -> None:
    stream, _ = pair
    reading = asyncio.ensure_future(stream.read(10))
    await asyncio.sleep(0)
    stream.close()
    assert await reading == b""
    assert await stream.read(10) == b""


async def test_closing_wakes_a_waiting_writer_with_a_broken_pipe(pair: tuple[PipeStream, ChildEnds]) -> None:
    stream, _ = pair
    writing = asyncio.ensure_future(stream.write(bytes(4 << 20)))
    await asyncio.sleep(0)
    stream.close()
    with pytest.raises(BrokenPipeError):
        await writing


async def test_a_reader_that_nobody_writes_to_any_more_gets_end_of_file() -> None:
    stream, ends = open_stream()
    os.write(ends.stdout, b"last")
    ends.close()
    assert [await stream.read(10), await stream.read(10)] == [b"last", b""]
    with pytest.raises(BrokenPipeError):
        await stream.write(b"x")
    stream.close()


async def test_a_late_wake_up_does_not_touch_the_next_owner_of_a_descriptor(
    pair: tuple[PipeStream, ChildEnds],
) -> None:
    stream, _ = pair
    reading = asyncio.ensure_future(stream.read(10))
    await asyncio.sleep(0)
    stream.close()
    other, ends = open_stream()  # takes the numbers that were freed
    elsewhere = asyncio.ensure_future(other.read(10))
    await asyncio.sleep(0)
    assert await reading == b""  # and unregisters nothing of the other's
    os.write(ends.stdout, b"hello")
    assert await elsewhere == b"hello"
    other.close()
    ends.close()


async def test_cancelling_leaves_the_stream_usable(pair: tuple[PipeStream, ChildEnds]) -> None:
    stream, ends = pair
    for _ in range(3):
        reading = asyncio.ensure_future(stream.read(10))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    os.write(ends.stdout, b"hello")
    assert await stream.read(10) == b"hello"


async def test_a_stream_that_never_waits_still_lets_others_run(pair: tuple[PipeStream, ChildEnds]) -> None:
    stream, ends = pair
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    piece = bytes(32 * 1024)
    for _ in range(2 * FAIR_BYTES // len(piece) + 2):  # there is always something to read
        os.write(ends.stdout, piece)
        await stream.read(len(piece))
    task.cancel()
    assert turns >= 2


async def test_a_limit_below_one_is_a_mistake(pair: tuple[PipeStream, ChildEnds]) -> None:
    with pytest.raises(ValueError, match="positive"):
        await pair[0].read(0)


async def test_closing_twice_gives_every_descriptor_back_once() -> None:
    before = descriptors()
    stream, ends = open_stream()
    ends.close()
    stream.close()
    stream.close()
    assert descriptors() == before


async def test_a_reader_goes_on_in_the_turn_of_the_loop_in_which_bytes_are_there() -> None:
    stream, ends = open_stream()
    reading = asyncio.ensure_future(stream.read(10))
    await asyncio.sleep(0)
    os.write(ends.stdout, b"bytes")
    await asyncio.sleep(0)  # in this turn they are seen
    await asyncio.sleep(0)
    assert reading.done()
    assert await reading == b"bytes"
    stream.close()
    ends.close()


async def test_a_reader_that_was_cancelled_when_bytes_came_takes_none_of_them() -> None:
    stream, ends = open_stream()
    reading = asyncio.ensure_future(stream.read(10))
    await asyncio.sleep(0)
    os.write(ends.stdout, b"bytes")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await asyncio.sleep(0)
    assert await stream.read(10) == b"bytes"
    stream.close()
    ends.close()


async def test_a_reader_that_is_waited_for_by_others_keeps_their_context() -> None:
    found: contextvars.ContextVar[str] = contextvars.ContextVar("found", default="nothing")
    stream, ends = open_stream()

    async def read() -> str:
        found.set("its own")
        await asyncio.wait_for(stream.read(10), 5)
        return found.get()

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    os.write(ends.stdout, b"bytes")
    assert await reading == "its own"
    assert found.get() == "nothing"
    stream.close()
    ends.close()
