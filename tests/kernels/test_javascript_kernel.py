"""JavaScript as a kernel: node with the manners of a browser's console."""

from __future__ import annotations

import pytest

from tests.kernels.room import Done, Room

PRESTART = ["javascript"]

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]


async def js(room: Room, code: str, context: str = "javascript") -> Done:
    return await room.run(code, "javascript", context=context)


@pytest.mark.parametrize(
    "declare", ["let x = 5", "const x = 5", "var x = 5", "x = 5", "const [x] = [5]", "const { x } = { x: 5 }"]
)
async def test_declarations_persist_and_may_be_repeated(room: Room, declare: str) -> None:
    for _ in range(2):
        assert (await js(room, declare, context="names")).status == "ok"
    assert (await js(room, "x", context="names")).text == "5"
    await room.host.ask("context.remove", context="names")


async def test_functions_and_classes_persist(room: Room) -> None:
    await js(room, "function f() { return new A().g() }\nclass A { g() { return 42 } }")
    assert (await js(room, "f()")).text == "42"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("1 + 1", "2"),
        ("'text'", "'text'"),
        ("({ a: [1, { b: 2 }] })", "{ a: [ 1, { b: 2 } ] }"),
        ("null", "null"),
        ("-0", "-0"),
        ("NaN", "NaN"),
        ("10n ** 20n", "100000000000000000000n"),
        ("Symbol('s')", "Symbol(s)"),
        ("[1, 2].map((n) => n * 2)", "[ 2, 4 ]"),
        ("await Promise.resolve(7)", "7"),
        ("async function main() { return 8 }\nmain()", "8"),
        ("undefined", None),
        ("let quiet = 1", None),
        ("// only a comment", None),
        ("", None),
    ],
)
async def test_the_last_value_is_shown(room: Room, code: str, text: str | None) -> None:
    done = await js(room, code)
    assert (done.status, done.text) == ("ok", text), done


async def test_console_writes_to_stdout_and_stderr(room: Room) -> None:
    done = await js(room, "console.log('out', { a: 1 }); console.error('err')")
    assert (done.stdout, done.stderr) == ("out { a: 1 }\n", "err\n")


@pytest.mark.parametrize(
    "code",
    [
        "require('fs').existsSync('/tmp')",
        "import fs from 'fs'; fs.existsSync('/tmp')",
        "import { existsSync as there } from 'node:fs'\nthere('/tmp')",
        "import * as fs from 'fs'\nfs.existsSync('/tmp')",
        "import fs, { existsSync } from 'fs'\nexistsSync('/tmp') && fs.existsSync('/tmp')",
        "(await import('fs')).existsSync('/tmp')",
        "import('fs').then((fs) => fs.existsSync('/tmp'))",
    ],
)
async def test_modules_come_in_every_way_that_people_write(room: Room, code: str) -> None:
    assert (await js(room, code)).text == "true"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("'import(1)'", "'import(1)'"),
        ("`import('fs')`", "\"import('fs')\""),
        ("/import('x')/.source", "\"import('x')\""),
        ("/* import('x') */ 1 // import x from 'y'", "1"),
        ("({ import: 3 }).import", "3"),
        ("4 / 2 / 1 /* import */", "2"),
    ],
)
async def test_the_word_import_elsewhere_is_left_alone(room: Room, code: str, text: str) -> None:
    assert (await js(room, code)).text == text


async def test_a_module_of_ones_own_can_be_imported(room: Room) -> None:
    await js(room, "require('fs').writeFileSync('own.mjs', 'export const answer = 42')")
    assert (await js(room, "import { answer } from './own.mjs'\nanswer")).text == "42"


async def test_an_error_is_name_value_and_the_users_own_frames(room: Room) -> None:
    done = await js(room, "function f() { throw new TypeError('bad') }\nf()")
    assert (done.status, done.error["name"], done.error["value"]) == ("error", "TypeError", "bad")
    lines = done.error["traceback"].split("\n")
    assert lines[0] == "TypeError: bad"
    assert [line.strip().split(" (")[0] for line in lines[1:]] == ["at f", f"at cell-{done.count}:2:1"]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("if (", "SyntaxError"),
        ("x y", "SyntaxError"),
        ("nope", "ReferenceError"),
        ("throw { a: 1 }", "Uncaught"),
        ("await Promise.reject(new RangeError('r'))", "RangeError"),
        ("(async () => { throw new URIError('u') })()", "URIError"),
    ],
)
async def test_whatever_is_thrown_is_an_error(room: Room, code: str, name: str) -> None:
    done = await js(room, code)
    assert (done.status, done.error["name"], done.fields["state_survived"]) == ("error", name, True)


async def test_a_syntax_error_tells_the_place(room: Room) -> None:
    done = await js(room, "let a = 1\nlet b = = 2")
    assert f"cell-{done.count}:2:" in done.error["traceback"]


@pytest.mark.parametrize(
    ("code", "exit_code", "status"),
    [
        ("process.exit()", 0, "ok"),
        ("process.exit(3)", 3, "error"),
        ("setTimeout(() => process.exit(4), 10); await new Promise(() => {})", 4, "error"),
    ],
)
async def test_process_exit_ends_the_cell_and_not_the_kernel(
    room: Room, code: str, exit_code: int, status: str
) -> None:
    await js(room, "globalThis.kept = 1")
    done = await js(room, code)
    assert (done.status, done.fields["exit_code"], done.fields["state_survived"]) == (status, exit_code, True)
    assert (await js(room, "kept")).text == "1"


async def test_errors_of_timers_do_not_end_the_kernel(room: Room) -> None:
    await js(room, "setTimeout(() => { throw new Error('late') }, 10); Promise.reject(new Error('unhandled'))\n1")
    done = await js(room, "await new Promise((done) => setTimeout(done, 100)); 'alive'")
    assert done.text == "'alive'"


async def test_bundles_are_shown(room: Room) -> None:
    done = await js(
        room,
        "display({ 'text/html': '<b>x</b>', 'image/png': Buffer.from('png'), 'application/json': { a: 1 } }); display([1])",
    )
    assert done.results == [
        ({"text/html": "<b>x</b>", "image/png": "cG5n", "application/json": {"a": 1}}, False),
        ({"text/plain": "[ 1 ]"}, False),
    ]


@pytest.mark.parametrize(
    "damage",
    [
        "process.stdout.write = () => true; process.stderr.write = null",
        "globalThis.console = undefined",
        "process.removeAllListeners()",
        "process.exit = undefined",
        "globalThis.require = null; globalThis.display = null",
        "Object.prototype.toJSON = () => 'haha'",
        "JSON.stringify = () => '{}'",
        "Array.prototype.includes = () => true",
        "process.chdir('/')",
        "process.stdin.on('data', () => {}); process.stdin.destroy()",
        "Error.prepareStackTrace = () => 5; Error.stackTraceLimit = 0",
    ],
)
async def test_damage_stays_in_its_own_context(room: Room, damage: str) -> None:
    call = await room.start(damage, "javascript", context="damaged")
    await call.tell("interrupt", grace=3.0)  # some of it may leave the kernel without an answer
    await call.result()
    await room.host.ask("context.remove", context="damaged")
    assert (await js(room, "console.log('fine'); 1", context="damaged")).stdout == "fine\n"
    await room.host.ask("context.remove", context="damaged")


@pytest.mark.parametrize(
    "damage",
    [
        "process.stdout.write = () => true",
        "globalThis.console = undefined",
        "process.removeAllListeners()",
        "process.exit = undefined",
    ],
)
async def test_the_next_run_prints_and_can_be_interrupted_whatever_the_last_one_did(room: Room, damage: str) -> None:
    await js(room, damage, context="mended")
    done = await room.interrupt(
        "setTimeout(() => console.log('go'), 50); await new Promise(() => {})",
        "javascript",
        context="mended",
        grace=5.0,
    )
    assert (done.status, done.fields["state_survived"], done.stdout) == ("interrupted", True, "go\n")
    await room.host.ask("context.remove", context="mended")


async def test_an_interrupt_as_guarded_code_ends_hits_this_run_and_not_the_next(room: Room) -> None:
    for _ in range(12):
        call = await room.start("console.log('go'); await new Promise(() => {})", "javascript", context="tight")
        await call.output(b"go\n")
        await call.cancel()
        await call.result()
        done = await js(room, "let s = 0; for (let i = 0; i < 1e6; i++) s += i; s", context="tight")
        assert (done.status, done.text) == ("ok", "499999500000"), done
    await room.host.ask("context.remove", context="tight")


async def test_listeners_of_the_code_hear_no_signal_of_the_kernels_own(room: Room) -> None:
    await js(room, "process.on('SIGINT', () => console.log('heard'))", context="listening")
    stopped = await room.interrupt(
        "setTimeout(() => console.log('go'), 50); await new Promise(() => {})",
        "javascript",
        context="listening",
        grace=5.0,
    )
    assert stopped.fields["state_survived"], stopped
    done = await js(
        room, "await new Promise((r) => setTimeout(r)); process.listenerCount('SIGINT')", context="listening"
    )
    assert (done.stdout, done.text) == ("", "2")
    await room.host.ask("context.remove", context="listening")


@pytest.mark.parametrize(
    "code", ["new Uint8Array(2 ** 40)", "'x'.repeat(2 ** 29).repeat(8)", "Buffer.alloc(2 ** 33 * 1000)"]
)
async def test_an_allocation_that_cannot_be_is_an_error(room: Room, code: str) -> None:
    done = await js(room, code)
    assert (done.status, done.error["name"]) == ("error", "RangeError")


async def test_values_that_cannot_be_shown_are_errors(room: Room) -> None:
    code = "({ [require('util').inspect.custom]() { throw new Error('no') } })"
    assert (await js(room, code)).error["value"] == "no"


async def test_signals_that_kill_it_are_told(room: Room) -> None:
    done = await js(room, "process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})", context="killed")
    assert (done.status, done.fields["signal"]) == ("died", 9)
