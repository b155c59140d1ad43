"""``Sandbox``: the blocking face, its thread, forks, exits and interrupts."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import pydoc
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dayfly
from dayfly import InputError, Sandbox, SandboxEnded
from dayfly.client import blocking as shells
from dayfly.client.bridge import _Call, shared_bridge
from tests.client.room import Landlord, embedded_only

PAIRS = [(name, f"Async{name}") for name in ("Commands", "Contexts", "Files", "Port", "Process", "Sandbox", "Watch")]


@pytest.mark.parametrize(("shell", "inner"), PAIRS)
def test_every_public_method_has_its_blocking_twin_with_the_same_parameters(shell: str, inner: str) -> None:
    ours, theirs = getattr(dayfly, shell), getattr(dayfly, inner)
    left_out = {"AsyncSandbox": {"open"}, "AsyncPort": {"connect"}, "AsyncWatch": {"ready"}}.get(inner, set())
    for name in {name for name in vars(theirs) if not name.startswith("_")} - left_out:
        assert hasattr(ours, name), f"{shell}.{name} is missing"
        if inspect.isfunction(getattr(theirs, name)):
            mine, its = inspect.signature(getattr(ours, name)), inspect.signature(getattr(theirs, name))
            assert mine.parameters == its.parameters
            assert getattr(ours, name).__doc__ == getattr(theirs, name).__doc__


@pytest.mark.parametrize("name", [shell for shell, _ in PAIRS])
def test_the_help_of_a_blocking_class_promises_nothing_asynchronous(name: str) -> None:
    shell = getattr(dayfly, name)
    assert "AsyncIterator" not in pydoc.render_doc(shell, renderer=pydoc.plaintext)
    for method in {name for name in vars(shell) if inspect.isfunction(vars(shell)[name])} - {"__init__"}:
        assert "Async" not in str(inspect.signature(getattr(shell, method)).return_annotation)
        assert getattr(shell, method).__qualname__ == f"{name}.{method}"


def test_a_call_that_does_not_fit_is_a_type_error_in_the_blocking_name(sandbox: Sandbox) -> None:
    calls: list[Callable[[Any], object]] = [
        lambda box: box.run_code("1", timout=1),
        lambda box: box.run_code(),
        lambda box: box.files.stream(),
        lambda box: box.files.list(1, 2),
        lambda box: box.commands.start(),
    ]
    for call, name in zip(
        calls, ["Sandbox.run_code", "Sandbox.run_code", "Files.stream", "Files.list", "Commands.start"], strict=True
    ):
        with pytest.raises(TypeError, match=rf"^{name}\(\): "):
            call(sandbox)


def test_what_a_callback_raises_stays_what_it_is(sandbox: Sandbox) -> None:
    def fail(text: str) -> None:
        raise TypeError("the callback's own")

    with pytest.raises(TypeError, match="the callback's own"):
        sandbox.run_code("say a", on_stdout=fail)


def test_no_blocking_method_is_written_by_hand() -> None:
    source = inspect.getsource(shells)
    assert "_bridge.run" not in source.replace("self._bridge.run(inner.open)", "")


def test_the_constructor_opens_and_the_block_ends(landlord: Landlord) -> None:
    with Sandbox({"image": "python"}, opener=landlord, env={"A": "b"}) as sandbox:
        assert sandbox.run_code("say a").stdout == "a"
        assert sandbox.id == landlord.rooms[0].id
        assert sandbox.policy.image == "python"
        assert sandbox.end_reason is None
        assert sandbox.usage.memory == 1000
        assert sandbox.languages == ("python",)
        assert [limit.name for limit in sandbox.limits] == ["memory"]
        assert "boundary" in sandbox.explain()
        assert repr(sandbox).startswith("<Sandbox ")
    with pytest.raises(SandboxEnded):
        sandbox.run_code("say a")


def test_state_stays_between_runs_and_callbacks_run_elsewhere(sandbox: Sandbox) -> None:
    names: list[str] = []
    sandbox.run_code("keep a 1")
    sandbox.run_code("recall a", on_stdout=lambda _: names.append(threading.current_thread().name))
    assert names == ["dayfly-callbacks"]


def test_a_callback_may_use_the_sandbox_itself(sandbox: Sandbox) -> None:
    seen: list[str] = []
    sandbox.run_code("say a", on_stdout=lambda _: seen.append(sandbox.run_code("say b").stdout))
    assert seen == ["b"]


def test_a_coroutine_function_is_refused_as_a_callback(sandbox: Sandbox) -> None:
    async def on_stdout(text: str) -> None: ...

    with pytest.raises(InputError, match="plain functions"):
        sandbox.run_code("say a", on_stdout=on_stdout)


async def test_it_works_inside_a_running_loop(landlord: Landlord) -> None:
    with Sandbox(opener=landlord) as sandbox:
        assert sandbox.run_code("say a").stdout == "a"


def test_it_works_from_many_threads_at_once(sandbox: Sandbox) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = pool.map(lambda number: sandbox.run_code(f"say {number}").stdout, range(100))
        assert list(runs) == [str(number) for number in range(100)]


def test_use_on_dayflys_own_thread_is_refused_instead_of_hanging(sandbox: Sandbox) -> None:
    async def use() -> None:
        sandbox.run_code("say a")

    with pytest.raises(InputError, match="own event loop thread"):
        shared_bridge().run(use)


def test_an_iterator_that_is_left_early_is_closed(landlord: Landlord, sandbox: Sandbox) -> None:
    sandbox.files.write("a", bytes(1_000_000))
    stream = sandbox.files.stream("a")
    assert 0 < len(next(stream)) < 1_000_000
    stream.close()  # type: ignore[attr-defined]
    assert list(stream) == []
    assert sum(map(len, sandbox.files.stream("a"))) == 1_000_000


def test_an_iterator_that_is_collected_on_the_loops_thread_does_not_hang(sandbox: Sandbox) -> None:
    sandbox.files.write("a", bytes(5000))
    held = [sandbox.files.stream("a")]
    next(held[0])

    async def drop() -> None:
        held.clear()

    shared_bridge().run(drop)
    assert sandbox.files.read("a") == bytes(5000)


def test_a_watch_sees_what_happens_from_its_return_on(sandbox: Sandbox) -> None:
    with sandbox.files.watch(".") as changes:
        assert changes.next() == ("created", "a")


# --- Ctrl-C ---


def test_ctrl_c_interrupts_the_run_and_the_sandbox_stays_usable(
    landlord: Landlord, sandbox: Sandbox, press_ctrl_c_when: Callable[[threading.Event], None]
) -> None:
    press_ctrl_c_when(landlord.rooms[0].began)
    with pytest.raises(KeyboardInterrupt):
        sandbox.run_code("forever")
    assert landlord.rooms[0].interrupted == 1
    assert sandbox.run_code("say a").stdout == "a"


def test_ctrl_c_while_opening_cancels_it_and_leaves_nothing(
    press_ctrl_c_when: Callable[[threading.Event], None],
) -> None:
    landlord = Landlord(slow=True)
    press_ctrl_c_when(landlord.waiting)
    with pytest.raises(KeyboardInterrupt):
        Sandbox(opener=landlord)
    assert landlord.cancelled == 1


def test_ctrl_c_in_a_command_kills_it(
    landlord: Landlord, sandbox: Sandbox, press_ctrl_c_when: Callable[[threading.Event], None]
) -> None:
    press_ctrl_c_when(landlord.rooms[0].began)
    with pytest.raises(KeyboardInterrupt):
        sandbox.commands.run(["sleep"])
    assert landlord.rooms[0].signalled.wait(10)  # a server hears of it a moment later
    assert landlord.rooms[0].signals in ([9], [15])  # 15: over a URL, before its start was told


async def test_work_that_is_given_up_before_it_begins_has_an_end() -> None:
    begun: list[str] = []

    async def work() -> None:
        begun.append("begun")

    call = _Call(work)
    call.start()
    call.give_up()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(SandboxEnded):
        call.result()
    assert begun == []


# --- collected, forked, exited ---


@embedded_only
def test_a_forgotten_sandbox_is_closed_with_a_warning(landlord: Landlord) -> None:
    sandbox = Sandbox(opener=landlord)
    shared_bridge().run(partial(asyncio.sleep, 0))  # the loop's thread has let go of what it has made
    with pytest.warns(ResourceWarning, match="unclosed <Sandbox "):
        del sandbox

    async def closed() -> None:
        await asyncio.wait_for(landlord.rooms[0].closed.wait(), 5)

    shared_bridge().run(closed)


def test_one_that_has_ended_is_forgotten_without_a_warning(landlord: Landlord) -> None:
    sandbox = Sandbox(opener=landlord)
    assert not sandbox.run_code("die").ok
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del sandbox
        gc.collect()


def in_child(work: Callable[[], None]) -> int:
    """The exit code of a forked child that does ``work``; 1 if it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: that is the case at hand
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_is_refused_the_parents_sandbox_and_does_not_end_it(
    landlord: Landlord, sandbox: Sandbox
) -> None:
    def use_and_drop() -> None:
        with pytest.raises(InputError, match="fork"):
            sandbox.run_code("say a")
        with pytest.raises(InputError, match="fork"):
            sandbox.close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sandbox._inner.__del__()

    assert in_child(use_and_drop) == 0
    assert sandbox.run_code("say a").stdout == "a"


def test_a_forked_child_can_open_its_own(sandbox: Sandbox) -> None:
    def open_own() -> None:
        with Sandbox(opener=Landlord()) as own:
            assert own.run_code("say a").stdout == "a"

    assert in_child(open_own) == 0
    assert sandbox.run_code("say b").stdout == "b"


def run_script(script: str, **popen: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        check=False,
    )


def test_the_end_of_the_interpreter_closes_what_was_left_open() -> None:
    done = run_script(
        """
        import asyncio
        from dayfly.client import embedded
        from room import Landlord

        class Telling(Landlord):
            async def close(self):
                await asyncio.to_thread(print, "closed", flush=True)  # executors must still work here

        embedded._make = Telling
        from dayfly import Sandbox
        kept = Sandbox()
        print(kept.run_code("say hello").stdout)
        """
    )
    assert (done.stdout.split(), done.stderr, done.returncode) == (["hello", "closed"], "", 0)


def test_a_forked_child_that_exits_closes_nothing_of_its_parent() -> None:
    done = run_script(
        """
        import os, sys
        from dayfly.client import embedded
        from room import Landlord

        class Telling(Landlord):
            async def close(self):
                print("closed by", "parent" if os.getpid() == parent else "child", flush=True)

        parent = os.getpid()
        embedded._make = Telling
        from dayfly import Sandbox
        kept = Sandbox()
        if (child := os.fork()) == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(kept.run_code("say hello").stdout, flush=True)
        """
    )
    assert (done.stdout.split("\n"), done.stderr) == (["hello", "closed by parent", ""], "")


def test_the_last_sandbox_of_a_loop_closes_its_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    from dayfly import AsyncSandbox
    from dayfly.client import embedded

    made: list[Landlord] = []
    monkeypatch.setattr(embedded, "_make", lambda: made.append(Landlord()) or made[-1])

    async def use_two() -> None:
        async with AsyncSandbox() as first, AsyncSandbox() as second:
            assert first.id != second.id
            await first.close()
            assert (await second.run_code("say a")).ok
        async with AsyncSandbox() as third:
            assert (await third.run_code("say a")).ok

    asyncio.run(use_two())
    assert [len(landlord.rooms) for landlord in made] == [2, 1]
