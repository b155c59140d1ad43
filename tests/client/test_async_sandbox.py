"""``AsyncSandbox`` over a room in memory."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import warnings

import pytest

from dayfly import AsyncSandbox, InputError, Outcome, PolicyError, Result, SandboxEnded
from dayfly.errors import FileProblem, SandboxFileError
from tests.client.room import Landlord, embedded_only


async def test_a_block_opens_the_sandbox_and_ends_it(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord, env={"A": "b"}, image="python") as sandbox:
        [room] = landlord.rooms
        assert room.env == {"A": "b"}
        assert room.policy.image == sandbox.policy.image == "python"
        assert sandbox.id == room.id
        assert sandbox.end_reason is None
        await sandbox.refresh()
        assert sandbox.usage.cpu_seconds == 1.5
        assert [limit.name for limit in sandbox.limits] == ["memory"]
        assert "open" in repr(sandbox)
    assert room.end_reason == sandbox.end_reason == "stopped"
    await sandbox.close()
    with pytest.raises(SandboxEnded, match="stopped"):
        await sandbox.run_code("say x")


async def test_a_sandbox_that_is_not_open_says_how_to_open_it(landlord: Landlord) -> None:
    sandbox = AsyncSandbox(opener=landlord)
    with pytest.raises(InputError, match="async with"):
        await sandbox.run_code("say x")
    with pytest.raises(InputError, match="async with"):
        _ = sandbox.files
    await sandbox.close()
    assert landlord.rooms == []


async def test_a_sandbox_is_opened_only_once(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox:
        with pytest.raises(InputError, match="once"):
            await sandbox.open()


@pytest.mark.parametrize("policy", [{"imagee": "x"}, {"limits": {"memory": -1}}, {"network": "all"}])
def test_a_wrong_policy_is_refused_before_anything_starts(policy: dict[str, object]) -> None:
    with pytest.raises(PolicyError):
        AsyncSandbox(policy)


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A": "\0"}, {"A": 1}, {1: "A"}])
def test_a_wrong_environment_is_refused_before_anything_starts(env: dict[str, str]) -> None:
    with pytest.raises(InputError):
        AsyncSandbox(env=env)


@pytest.mark.parametrize("arguments", [{"policy": "strict"}, {"policy": 7}, {"image": ""}, {"image": 7}])
def test_arguments_of_a_wrong_type_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InputError):
        AsyncSandbox(**arguments)  # type: ignore[arg-type]


async def test_cancelling_the_opening_cancels_it_below() -> None:
    landlord = Landlord(slow=True)
    task = asyncio.ensure_future(AsyncSandbox(opener=landlord).open())
    await asyncio.to_thread(landlord.waiting.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert landlord.cancelled == 1


@embedded_only  # the room of a server lives on a loop of its own
async def test_closing_goes_on_when_the_wait_for_it_is_cancelled(landlord: Landlord) -> None:
    sandbox = await AsyncSandbox(opener=landlord).open()
    closing = asyncio.ensure_future(sandbox.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    await asyncio.wait_for(landlord.rooms[0].closed.wait(), 5)


@embedded_only
async def test_a_forgotten_sandbox_is_closed_with_a_warning(landlord: Landlord) -> None:
    sandbox = await AsyncSandbox(opener=landlord).open()
    with pytest.warns(ResourceWarning, match="unclosed <AsyncSandbox"):
        del sandbox
    await asyncio.wait_for(landlord.rooms[0].closed.wait(), 5)


async def test_a_sandbox_lives_as_long_as_a_part_of_it_is_used(landlord: Landlord) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files = (await AsyncSandbox(opener=landlord).open()).files
        gc.collect()
        await files.write("a", "x")
        assert landlord.rooms[0].end_reason is None
    with pytest.warns(ResourceWarning):
        del files
    await landlord.close()


async def test_output_reaches_the_callbacks_in_the_order_in_which_it_was_made(landlord: Landlord) -> None:
    seen: list[object] = []
    async with AsyncSandbox(opener=landlord) as sandbox:
        execution = await sandbox.run_code(
            "say a\nwarn b\nshow c\nsay d",
            on_stdout=seen.append,
            on_stderr=seen.append,
            on_result=lambda result: seen.append(result.text),
        )
    assert seen == ["a", "b", "c", "d"]
    assert (execution.stdout, execution.stderr, execution.text) == ("ad", "b", "c")


async def test_a_plain_callback_never_runs_on_the_loops_thread(landlord: Landlord) -> None:
    threads: list[threading.Thread] = []
    async with AsyncSandbox(opener=landlord) as sandbox:
        await sandbox.run_code("say a\nsay b", on_stdout=lambda _: threads.append(threading.current_thread()))
    assert len(set(threads)) == 1
    assert threading.current_thread() not in threads
    threads[0].join(5)
    assert not threads[0].is_alive()


async def test_a_callback_sees_the_callers_context(landlord: Landlord) -> None:
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("the caller's")
    seen: list[str] = []
    async with AsyncSandbox(opener=landlord) as sandbox:
        await sandbox.run_code("say a", on_stdout=lambda _: seen.append(variable.get()))
    assert seen == ["the caller's"]


async def test_a_coroutine_function_is_awaited_on_the_callers_loop(landlord: Landlord) -> None:
    seen: list[object] = []

    async def on_result(result: Result) -> None:
        await asyncio.sleep(0)
        seen.append((result.text, threading.current_thread() is threading.main_thread()))

    async with AsyncSandbox(opener=landlord) as sandbox:
        await sandbox.run_code("show a", on_result=on_result)
    assert seen == [("a", True)]


async def test_what_a_callback_raises_stops_the_run_and_reaches_the_caller(landlord: Landlord) -> None:
    def fail(text: str) -> None:
        raise LookupError(text)

    async with AsyncSandbox(opener=landlord) as sandbox:
        with pytest.raises(LookupError, match="a"):
            await sandbox.run_code("say a\nforever", on_stdout=fail)
        assert landlord.rooms[0].interrupted == 1
        assert (await sandbox.run_code("say b")).stdout == "b"


@pytest.mark.parametrize("error", [StopIteration, SystemExit, KeyboardInterrupt])
@embedded_only
async def test_even_odd_exceptions_of_a_callback_end_the_run(landlord: Landlord, error: type[BaseException]) -> None:
    def fail(text: str) -> None:
        raise error(text)

    async with AsyncSandbox(opener=landlord) as sandbox:
        running = asyncio.ensure_future(asyncio.wait_for(_swallow(sandbox.run_code("say a", on_stdout=fail)), 5))
        assert isinstance(await running, RuntimeError if error is StopIteration else error)


async def _swallow(coroutine: object) -> BaseException | None:
    try:
        await coroutine  # type: ignore[misc]
    except BaseException as error:  # noqa: BLE001
        return error
    return None


@embedded_only
async def test_a_slow_callback_slows_the_code_down_instead_of_filling_memory(landlord: Landlord) -> None:
    ahead: list[int] = []

    async with AsyncSandbox(opener=landlord) as sandbox:
        room = landlord.rooms[0]

        def slow(text: str) -> None:
            threading.Event().wait(0.001)
            ahead.append(room.said - int(text))

        execution = await sandbox.run_code("flood 100", on_stdout=slow)
    assert len(ahead) == 100
    assert max(ahead) <= 2
    assert execution.stdout.count("\n") == 100


async def test_a_callback_that_hangs_does_not_delay_a_cancelled_run(landlord: Landlord) -> None:
    release, entered = threading.Event(), threading.Event()

    def hang(_: str) -> None:
        entered.set()
        release.wait(20)

    async with AsyncSandbox(opener=landlord) as sandbox:
        task = asyncio.ensure_future(sandbox.run_code("say a", on_stdout=hang))
        await asyncio.to_thread(entered.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        release.set()


async def test_a_callback_that_cannot_be_called_is_refused(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox:
        with pytest.raises(InputError, match="on_stderr must be callable"):
            await sandbox.run_code("say a", on_stderr="print")  # type: ignore[arg-type]


async def test_many_calls_may_be_under_way_at_once(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox:
        runs = [sandbox.run_code(f"say {number}") for number in range(50)]
        assert [run.stdout for run in await asyncio.gather(*runs)] == [str(number) for number in range(50)]


async def test_the_end_of_the_sandbox_under_a_run_is_an_outcome(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox:
        execution = await sandbox.run_code("say a\ndie")
        assert (execution.outcome, execution.stdout) == (Outcome.SANDBOX_ENDED, "a")
        assert execution.end_reason == sandbox.end_reason == "memory_limit"
        with pytest.raises(SandboxEnded, match="memory_limit"):
            await sandbox.run_code("say b")


async def test_contexts_can_be_listed_and_removed(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox:
        await sandbox.run_code("keep a 1")
        assert [context.name for context in await sandbox.contexts.list()] == ["python"]
        await sandbox.contexts.remove("python")
        execution = await sandbox.run_code("recall a")
        assert execution.error is not None
        assert execution.error.name == "NameError"


@embedded_only
async def test_a_port_inside_carries_bytes_both_ways(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox, await sandbox.connect_port(8000) as port:
        await port.write(b"ping")
        assert await port.read() == b"ping"
        await port.write_eof()


@embedded_only  # a server keeps the paths of its machine to itself
async def test_explain_gives_what_the_boundary_was_told(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox:
        assert await sandbox.explain() == {"boundary": "a fake"}


async def test_file_errors_pass_through_as_they_are(landlord: Landlord) -> None:
    async with AsyncSandbox(opener=landlord) as sandbox:
        with pytest.raises(SandboxFileError) as caught:
            await sandbox.files.read("missing")
        assert caught.value.problem is FileProblem.NOT_FOUND
