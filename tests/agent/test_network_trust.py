"""One more authority that programs inside believe: clients that everybody uses, unmodified, in a real sandbox."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dayfly.boundaries.gvisor import GvisorBoundary
from tests.agent.authority import Authority, SecureWeb
from tests.agent.conftest import open_room
from tests.agent.host import Failed, Host
from tests.machine import image

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]

HOST = "api.example"
OURS, OTHER = Authority(), Authority()
SYSTEM = "/etc/ssl/certs/ca-certificates.crt"
BARE = "env -i PATH=$PATH HOME=$HOME"
"""Runs a program that knows of no variable."""


async def tell(host: Host, authority: str | None, **env: str) -> None:
    await host.ask("network", names=[{"host": HOST, "ports": [443]}], authority=authority, env=env)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def data(gvisor: GvisorBoundary, agents: Path) -> AsyncIterator[Host]:
    async with open_room(gvisor, agents, "data") as host:
        yield host


@pytest.fixture(scope="module")
def lists() -> list[str]:
    """All lists of roots in the image: the system's, and two of Python's, its own, and pip's."""
    root = image("data").rootfs
    found = [SYSTEM, *(f"/{path.relative_to(root)}" for path in (root / "usr").rglob("certifi/cacert.pem"))]
    assert len(found) == 3
    return found


@pytest.fixture
def web(data: Host) -> SecureWeb:
    made = SecureWeb(OURS.server(HOST))
    data.serve = made.serve
    return made


def python(code: str) -> str:
    return f'python3 -c "{code}"'


CLIENTS = {
    "ssl": python(
        "import socket, ssl; s = socket.create_connection(('api.example', 443), 20); "
        "s = ssl.create_default_context().wrap_socket(s, server_hostname='api.example'); "
        "s.sendall(b'GET / HTTP/1.1\\r\\nHost: api.example\\r\\n\\r\\n'); s.recv(1000)"
    ),
    "urllib": python("import urllib.request as r; r.urlopen('https://api.example/', timeout=20).read()"),
    "urllib3": python("import urllib3; urllib3.PoolManager(retries=False).request('GET', 'https://api.example/')"),
    "requests": python("import requests; requests.get('https://api.example/', timeout=20)"),
    "httpx": python("import httpx; httpx.get('https://api.example/', timeout=20)"),
    "node fetch": "node -e \"fetch('https://api.example/').then(r => r.text())\"",
    "node https": "node -e \"require('https').get('https://api.example/', r => r.resume())\"",
    "curl": "curl -sS --max-time 20 https://api.example/",
    "git": "git ls-remote https://api.example/repo.git",
    "pip": (
        "python3 -m pip download --no-input --retries 0 --timeout 20 --disable-pip-version-check "
        "-i https://api.example/simple nothing 2>&1 | tee said; ! grep -i certificate said"
    ),
    "openssl": "printf 'GET / HTTP/1.1\\r\\n\\r\\n' | openssl s_client -quiet -verify_return_error -connect api.example:443",
}
"""Each fails where the server is not believed, but for pip, which fails in any case; what it complains of is looked at."""


async def arrives(host: Host, web: SecureWeb, line: str) -> tuple[bool, bytes]:
    """Whether the server got a request, and what was printed. The client must think the same of it."""
    before = len(web.asked)
    call = await host.shell(line)
    code = (await call.result())["exit_code"]
    arrived = len(web.asked) > before
    assert arrived == (code == 0), (code, call.stdout, call.stderr)
    return arrived, call.stdout + call.stderr


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_believes_the_authority_that_was_told_and_no_other(
    data: Host, web: SecureWeb, client: str
) -> None:
    for authority, expected in (
        (OURS.pem, True),
        (OTHER.pem, False),  # the former one is not believed any more
    ):
        await tell(data, authority)
        arrived, said = await arrives(data, web, CLIENTS[client])
        assert arrived == expected, said


@pytest.mark.parametrize("client", CLIENTS)
async def test_what_the_image_reads_by_default_has_it_too(data: Host, web: SecureWeb, client: str) -> None:
    """For programs that know of no variable. (Debian's node reads the system's list, others' one that is built in.)

    Without an authority there is none: ``test_variables_are_there_while_the_rules_are_and_what_the_user_has_set_stays``.
    """
    for authority, expected in ((OURS.pem, True), (None, False)):
        await tell(data, authority)
        arrived, said = await arrives(data, web, f"{BARE} bash -c {quoted(CLIENTS[client])}")
        assert arrived == expected, said


def quoted(line: str) -> str:
    return "'" + line.replace("'", "'\\''") + "'"


def certificates(bundle: bytes) -> set[bytes]:
    return set(re.findall(rb"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----", bundle))


async def test_the_images_own_roots_are_all_there_and_nothing_but_them_when_it_is_over(
    data: Host, lists: list[str], gvisor: GvisorBoundary, agents: Path
) -> None:
    async with open_room(gvisor, agents, "data") as untouched:
        plains = await contents(untouched, *lists)
        assert await untouched.out("ls /run; env | grep -c _CA_ || true") == b"0\n", "nothing is there for nobody"
    assert all(len(certificates(plain)) > 100 for plain in plains)
    ours = certificates(OURS.pem.encode())
    for authority, more in ((OURS.pem, ours), (None, set()), (OURS.pem, ours), (None, set())):
        await tell(data, authority)
        told, *bundles = await contents(data, "/run/dayfly/ca-certificates.crt", *lists)
        assert told == bundles[lists.index(SYSTEM)]
        for bundle, plain in zip(bundles, plains, strict=True):
            assert certificates(bundle) == certificates(plain) | more
            assert bundle.startswith(plain)


async def contents(host: Host, *files: str) -> list[bytes]:
    """Of each file, in one go."""
    end = b"\0end of file\0"
    read = (await host.out(f"for file in {' '.join(files)}; do cat $file && printf '\\0end of file\\0'; done")).split(
        end
    )
    assert len(read) == len(files) + 1
    return read[:-1]


async def test_user_code_cannot_change_it(data: Host, lists: list[str]) -> None:
    await tell(data, OURS.pem)
    everything = f"cat /run/dayfly/*.crt {' '.join(lists)} | sha256sum"
    before = await data.out(everything)
    where = (await data.out("python3 -c 'import certifi; print(certifi.where())'")).decode().strip()
    assert where.endswith("/cacert.pem")
    for attempt in (
        f"echo x >> {SYSTEM}",
        f"chmod 666 {SYSTEM}",
        f"rm -f {SYSTEM}",
        f"ln -sf /tmp/mine {SYSTEM}",
        "touch /etc/ssl/certs/mine",
        "mv /etc/ssl/certs /etc/ssl/other",
        "mv /run/dayfly /run/other",
        "touch /run/dayfly/mine",
        "rm -f /run/dayfly/authority.crt",
        f"echo x >> {where}",
        f"rm -f {where}",
        f"touch $(dirname {where})/mine",
        "mv /run/dayfly/authority.crt /run/dayfly/ca-certificates.crt",
    ):
        call = await data.shell(attempt)
        assert (await call.result())["exit_code"] != 0, attempt
    assert await data.out(everything) == before
    assert await data.out("stat -c '%U %a' /run/dayfly /run/dayfly/*") == b"root 755\n" + 4 * b"root 644\n"
    owners = await data.out(f"stat -c %u /etc $(dirname {' '.join(lists)}) | uniq | wc -l")
    assert owners == b"1\n", "directories are whose they were"


async def test_variables_are_there_while_the_rules_are_and_what_the_user_has_set_stays(
    gvisor: GvisorBoundary, agents: Path
) -> None:
    async with open_room(gvisor, agents, "python", env={"SSL_CERT_FILE": "/mine", "AWS_REGION": "here"}) as host:
        before = await host.out("env | sort")
        await tell(host, OURS.pem, AWS_REGION="there", AWS_ENDPOINT_URL="http://objects.example")
        told = dict(line.split("=", 1) for line in (await host.out("env | sort")).decode().splitlines())
        assert (told["SSL_CERT_FILE"], told["AWS_REGION"]) == ("/mine", "here")
        assert told["AWS_ENDPOINT_URL"] == "http://objects.example"
        assert told["REQUESTS_CA_BUNDLE"] == told["CURL_CA_BUNDLE"] == "/run/dayfly/ca-certificates.crt"
        assert told["NODE_EXTRA_CA_CERTS"] == "/run/dayfly/authority.crt"
        call = await host.shell("echo $PIP_CERT", env={"PIP_CERT": "/theirs"})
        await call.result()
        assert call.stdout == b"/theirs\n"
        await host.ask("configure", env={"GIT_SSL_CAINFO": "/later"}, limits={}, hostname=None)
        assert await host.out("echo $GIT_SSL_CAINFO $PIP_CERT") == b"/later /run/dayfly/ca-certificates.crt\n"
        await tell(host, None)
        assert await host.out("env | grep -v GIT_SSL_CAINFO | sort") == before
        assert await host.out("echo $GIT_SSL_CAINFO") == b"/later\n"


BAD: dict[str, dict[str, Any]] = {
    "no PEM": {"authority": "no certificate"},
    "empty": {"authority": ""},
    "two of them": {"authority": OURS.pem + OTHER.pem},
    "more than one file can take": {"authority": OURS.pem + "\n" * 20_000},
    "other bytes": {"authority": OURS.pem.replace("A", "*")},
    "a key": {"authority": OURS.pem.replace("CERTIFICATE", "PRIVATE KEY")},
    "a name with =": {"env": {"A=B": "c"}},
    "a name that is a number": {"env": {"1": "c"}},
    "a name that is none": {"env": {"": "c"}},
    "a name of two words": {"env": {"A B": "c"}},
    "a name with a command": {"env": {"A$(id)": "c"}},
    "a long name": {"env": {"A" * 129: "c"}},
    "a line end": {"env": {"A": "b\nc"}},
    "a NUL": {"env": {"A": "b\0"}},
    "no text": {"env": {"A": 1}},
    "a long value": {"env": {"A": "b" * 4097}},
    "many": {"env": {f"A{number}": "" for number in range(65)}},
}


LOOK = f"env | sort; sha256sum {SYSTEM}; getent hosts {HOST}"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def looked(data: Host) -> bytes:
    """What code sees of the rules that ``good`` tells."""
    await good(data)
    return await data.out(LOOK)


async def good(data: Host) -> None:
    await tell(data, OURS.pem, AWS_REGION="here")


@pytest.mark.parametrize("what", BAD)
async def test_what_cannot_be_is_refused_and_nothing_has_changed(data: Host, looked: bytes, what: str) -> None:
    await good(data)
    with pytest.raises(Failed, match="bad_request"):
        await data.ask("network", **{"names": [], "authority": None, "env": {}, **BAD[what]})
    assert await data.out(LOOK) == looked


@pytest.mark.parametrize("name", ["tiny", "python39"])
async def test_an_image_without_roots_believes_the_authority_alone(
    gvisor: GvisorBoundary, agents: Path, name: str
) -> None:
    async with open_room(gvisor, agents, name) as host:
        host.serve = SecureWeb(OURS.server(HOST)).serve
        await tell(host, OURS.pem)
        assert await host.out("cat $SSL_CERT_FILE") == OURS.pem.encode()
        await host.out(CLIENTS["urllib"])
        await tell(host, OTHER.pem)
        assert (await (await host.shell(CLIENTS["urllib"])).result())["exit_code"] != 0
