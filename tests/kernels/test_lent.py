"""Kernels that live when the network's settings change: their next cell knows of it, and what code has set stays."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.agent.authority import Authority, SecureWeb
from tests.kernels.conftest import OpenRoom
from tests.kernels.room import Room

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]

HOST = "api.example"
OURS, OTHER = Authority(), Authority()
BUNDLE = "/run/dayfly/ca-certificates.crt"

SHOW = {
    "python": "import os; print(*(os.environ.get(name, '-') for name in '{names}'.split()))",
    "bash": 'for name in {names}; do printf "%s " "${{!name--}}"; done; echo',
    "javascript": "console.log('{names}'.split(' ').map((name) => process.env[name] ?? '-').join(' '))",
}
"""Prints what there is of each variable in the kernel; ``-``: it is not there."""

SET = {
    "python": "os.environ['{name}'] = '{value}'",
    "bash": "{name}='{value}'",
    "javascript": "process.env.{name} = '{value}'",
}

FETCH = {
    "python": (
        "import urllib.request, urllib.error\n"
        "try: print(urllib.request.urlopen('https://api.example/', timeout=20).read().decode())\n"
        "except urllib.error.URLError as error: print(error)"
    ),
    "bash": "curl -sS --max-time 20 https://api.example/ 2>&1",
    "javascript": (
        "await fetch('https://api.example/').then((r) => r.text(), (e) => String(e.cause)).then(console.log);"
        "await new Promise((done) => require('https').get('https://api.example/', {{ agent: false }}, (r) => {{"
        "r.resume(); r.on('end', done); }}).on('error', (e) => {{ console.log(e.code); done() }}))"
    )
    .replace("{{", "{")
    .replace("}}", "}"),
}


async def tell(room: Room, authority: str | None, **env: str) -> None:
    await room.host.ask("network", names=[{"host": HOST, "ports": [443]}], authority=authority, env=env)


async def shown(room: Room, language: str, *names: str, context: str = "") -> list[str]:
    done = await room.run(SHOW[language].format(names=" ".join(names)), language, context=context)
    return done.stdout.split()


@pytest.fixture
def web(room: Room) -> SecureWeb:
    made = SecureWeb(OURS.server(HOST))
    room.host.serve = made.serve
    return made


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def nothing_lent(room: Room) -> AsyncIterator[None]:
    await tell(room, None)
    yield


@pytest.mark.parametrize("language", SHOW)
async def test_a_live_kernel_gets_and_loses_what_is_lent(room: Room, language: str) -> None:
    names = ("SSL_CERT_FILE", "AWS_ENDPOINT_URL", "PLAIN")
    assert await shown(room, language, *names) == ["-", "-", "-"]
    await tell(room, OURS.pem, AWS_ENDPOINT_URL="http://it's.example/$HOME", PLAIN="")
    assert await shown(room, language, *names[:2]) == [BUNDLE, "http://it's.example/$HOME"]
    await tell(room, None, PLAIN="now")
    assert await shown(room, language, *names) == ["-", "-", "now"]
    await tell(room, None)
    assert await shown(room, language, *names) == ["-", "-", "-"]


@pytest.mark.parametrize("language", SHOW)
async def test_what_code_has_set_stays(room: Room, language: str) -> None:
    names = ("AWS_ENDPOINT_URL", "AWS_REGION", "PIP_CERT")
    assert await shown(room, language, *names) == ["-", "-", "-"]
    await room.run(SET[language].format(name="AWS_ENDPOINT_URL", value="mine"), language)
    await tell(room, OURS.pem, AWS_ENDPOINT_URL="http://objects.example", AWS_REGION="there")
    assert await shown(room, language, *names) == ["mine", "there", BUNDLE]
    await room.run(SET[language].format(name="PIP_CERT", value="theirs"), language)
    await tell(room, None, AWS_REGION="elsewhere")
    assert await shown(room, language, *names) == ["mine", "elsewhere", "theirs"]
    await tell(room, None)
    assert await shown(room, language, *names) == ["mine", "-", "theirs"]


@pytest.mark.parametrize("language", SHOW)
async def test_processes_of_a_live_kernel_have_them(room: Room, language: str) -> None:
    line = "echo $AWS_REGION"
    start = {
        "python": f"import subprocess; subprocess.run(['sh', '-c', '{line}'])",
        "bash": f"sh -c '{line}'",
        "javascript": f"require('child_process').execSync('{line}', {{ stdio: 'inherit' }}); undefined",
    }[language]
    assert (await room.run(start, language)).stdout == "\n"
    await tell(room, None, AWS_REGION="there")
    assert (await room.run(start, language)).stdout == "there\n"


@pytest.mark.parametrize("language", FETCH)
async def test_a_kernel_that_has_connected_before_believes_from_the_next_cell_on(
    room: Room, web: SecureWeb, language: str
) -> None:
    assert "welcome" not in (await room.run(FETCH[language], language, context=f"live {language}")).stdout
    assert web.asked == []
    await tell(room, OURS.pem)
    done = await room.run(FETCH[language], language, context=f"live {language}")
    assert (done.stdout.strip(), len(web.asked)) == (
        "<html>welcome</html>",
        2 if language == "javascript" else 1,
    ), done
    web.context = OTHER.server(HOST)
    assert "welcome" not in (await room.run(FETCH[language], language, context=f"live {language}")).stdout
    await tell(room, OTHER.pem)
    assert "welcome" in (await room.run(FETCH[language], language, context=f"live {language}")).stdout
    await tell(room, None)
    # another one: node's fetch would take up its TLS session again, and verify nothing
    web.context = OTHER.server(HOST)
    assert "welcome" not in (await room.run(FETCH[language], language, context=f"live {language}")).stdout


@pytest.mark.parametrize("language", FETCH)
async def test_a_kernel_that_is_started_later_believes_too(room: Room, web: SecureWeb, language: str) -> None:
    await tell(room, OURS.pem)
    done = await room.run(FETCH[language], language, context=f"new {language}")
    assert "welcome" in done.stdout, done


async def test_a_context_of_nodes_with_a_list_of_its_own_believes_nobody_else(room: Room, web: SecureWeb) -> None:
    code = (
        "await new Promise((done) => require('https').get('https://api.example/', { agent: false, ca: `%s` }, (r) => {"
        "console.log(r.statusCode); r.resume(); r.on('end', done); }).on('error', (e) => { console.log(e.code); done() }))"
    )
    assert (await room.run("1", "javascript", context="own list")).status == "ok"
    await tell(room, OURS.pem)
    done = await room.run(code % OTHER.pem, "javascript", context="own list")
    assert (done.stdout.split()[-1].startswith("UNABLE"), web.asked) == (True, []), done
    assert (await room.run(code % OURS.pem, "javascript", context="own list")).stdout == "200\n"


async def test_kernels_that_nobody_has_used_have_it_from_the_start(rooms: OpenRoom) -> None:
    room = await rooms("data", prestart=["python", "bash", "javascript"])
    room.host.serve = SecureWeb(OURS.server(HOST)).serve
    await tell(room, OURS.pem, AWS_REGION="there")
    for language in SHOW:
        assert await shown(room, language, "AWS_REGION", "SSL_CERT_FILE") == ["there", BUNDLE]
        assert "welcome" in (await room.run(FETCH[language], language)).stdout


async def test_code_that_has_broken_its_environment_keeps_its_kernel(room: Room) -> None:
    breaks = {
        "python": "import os; kept = os.environ; os.environ = {}",
        "bash": "readonly AWS_REGION=mine",
        "javascript": "process.env = null; undefined",
    }
    for language, code in breaks.items():
        await room.run(code, language, context=f"broken {language}")
    await tell(room, OURS.pem, AWS_REGION="there")
    for language, code in {"python": "print(1)", "bash": "echo 1", "javascript": "console.log(1)"}.items():
        done = await room.run(code, language, context=f"broken {language}")
        assert (done.status, done.stdout) == ("ok", "1\n"), done
