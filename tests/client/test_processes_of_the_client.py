"""Commands over a room in memory."""

from __future__ import annotations

import asyncio
import signal

import pytest

from dayfly import AsyncSandbox, InputError, Output, Sandbox
from tests.client.room import Landlord, embedded_only


async def test_a_command_gets_its_input_and_gives_its_output(landlord: Landlord) -> None:
    seen: list[bytes] = []
    async with AsyncSandbox(opener=landlord) as sandbox:
        result = await sandbox.commands.run(["cat"], input="hello", on_stdout=seen.append)
    assert (result.ok, result.text, seen) == (True, "hello", [b"hello"])


async def test_input_larger_than_every_buffer_does_not_block_both_sides(landlord: Landlord) -> None:
    data = bytes(3_000_000)
    async with AsyncSandbox(opener=landlord) as sandbox:
        result = await asyncio.wait_for(sandbox.commands.run(["cat"], input=data), 10)
    assert result.stdout == data


@embedded_only
async def test_a_shell_line_goes_to_bash_and_a_list_does_not(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox:
        assert (await sandbox.commands.start("echo $HOME"))._handle.argv == ["/bin/bash", "-c", "echo $HOME"]  # type: ignore[attr-defined]
        assert (await sandbox.commands.start(["echo", "$HOME"]))._handle.argv == ["echo", "$HOME"]  # type: ignore[attr-defined]
        with pytest.raises(InputError, match="shell line"):
            await sandbox.commands.run(b"echo")  # type: ignore[arg-type]


@embedded_only
async def test_cancelling_a_command_kills_it(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox:
        task = asyncio.ensure_future(sandbox.commands.run(["sleep"]))
        await asyncio.to_thread(landlord.rooms[0].began.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert landlord.rooms[0].signals == [signal.SIGKILL]


async def test_a_process_is_talked_to_while_it_runs(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox:
        process = await sandbox.commands.start(["cat"], pty=(24, 80))
        output = process.output()
        await process.write_stdin("one")
        assert await anext(output) == Output("stdout", b"one")
        await process.resize(50, 100)
        assert landlord.rooms[0].state["size"] == "50x100"
        await process.write_stdin(b"two")
        await process.close_stdin()
        assert [item.data async for item in output] == [b"two"]
        assert (await process.wait()).stdout == b"onetwo"
        assert "ended" in repr(process)


@embedded_only
async def test_output_that_nobody_reads_is_bounded_and_does_not_block_the_wait(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox:
        process = await sandbox.commands.start(["noise", "40"])
        for _ in range(200):
            await asyncio.sleep(0)
        assert 0 < len(process._handle.out) <= 9  # type: ignore[attr-defined]
        result = await asyncio.wait_for(process.wait(), 5)
        assert len(result.stdout) == 40 * 2**20


async def test_a_process_ends_with_its_block(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox:
        async with await sandbox.commands.start(["sleep"]) as process:
            assert "running" in repr(process)
        assert (await process.wait()).signal == 9


async def test_a_process_that_was_left_says_how_to_find_it_again(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox:
        process = await sandbox.commands.start(["sleep"], detached=True)
        await process.detach()
        with pytest.raises(InputError, match=r"connect\(7\)"):
            await process.wait()
        assert (await sandbox.commands.connect(7)).pid == 7
        assert [info.pid for info in await sandbox.commands.list()] == [7]
        await sandbox.commands.send_signal(7, signal.SIGTERM)
        assert landlord.rooms[0].signals == [15]


def test_the_blocking_process_does_the_same(sandbox: Sandbox) -> None:
    with sandbox.commands.start(["cat"]) as process:
        process.write_stdin("one")
        process.close_stdin()
        assert [(item.stream, item.data) for item in process.output()] == [("stdout", b"one")]
        assert process.wait().exit_code == 0
        assert process.pid == 7
