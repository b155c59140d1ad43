"""Programs as they are, without a proxy variable: what a rule names works as if there were a network."""

from __future__ import annotations

import hashlib
import json

import pytest

from dayfly import AsyncSandbox
from dayfly.prove.internet import PUBLIC
from tests.network.world import BIG, COUNTING, TCP, UPGRADING, World, python

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

FETCHES = {
    "curl": "curl -sS http://web.example.com/page",
    "curl https": "curl -sS --cacert ca.pem https://api.example.com/page",
    "git": "git ls-remote http://web.example.com/repo.git",
    "urllib": "python3 -c \"import urllib.request as u; print(u.urlopen('http://web.example.com/page').read())\"",
    "urllib https": "python3 -c \"import ssl, urllib.request as u; print(u.urlopen('https://api.example.com/page', "
    "context=ssl.create_default_context(cafile='ca.pem')).read())\"",
    "requests": "python3 -c \"import requests; print(requests.get('http://web.example.com/page').text)\"",
    "requests https": "python3 -c \"import requests; "
    "print(requests.get('https://api.example.com/page', verify='ca.pem').text)\"",
    "httpx": "python3 -c \"import httpx; print(httpx.get('http://web.example.com/page').text)\"",
    "httpx https": "python3 -c \"import httpx, ssl; print(httpx.get('https://api.example.com/page', "
    "verify=ssl.create_default_context(cafile='ca.pem')).text)\"",
    "node": "node -e \"fetch('http://web.example.com/page').then(r => r.text()).then(console.log)\"",
    "node https": "NODE_EXTRA_CA_CERTS=ca.pem node -e "
    "\"fetch('https://api.example.com/page').then(r => r.text()).then(console.log)\"",
    "curl proxy": "curl -sS -x http://127.0.0.1:3128 http://web.example.com/page",
    "curl connect https": "curl -sS --cacert ca.pem -x http://127.0.0.1:3128 https://api.example.com/page",
    "curl socks https": "curl -sS --cacert ca.pem -x socks5h://127.0.0.1:1080 https://api.example.com/page",
}  # fmt: skip


@pytest.mark.parametrize("client", FETCHES)
async def test_a_client_fetches_what_it_may(shared: AsyncSandbox, world: World, client: str) -> None:
    done = await shared.commands.run(FETCHES[client], timeout=30)
    assert done.ok, done.stderr
    assert ("refs/heads/main" if client == "git" else ".example.com /page") in done.text
    assert done.denied == ()
    assert world.visited() == {(PUBLIC[0], 443 if client.endswith("https") else 80)}


async def test_a_tls_socket_checks_the_certificate_itself(shared: AsyncSandbox, world: World) -> None:
    done = await python(
        shared,
        "import ssl\n"
        "context = ssl.create_default_context(cafile='ca.pem')\n"
        "with context.wrap_socket(connect('api.example.com', 443), server_hostname='api.example.com') as peer:\n"
        "    print(peer.version(), dict(peer.getpeercert()['subject'][0]))",
    )
    assert done.text.startswith("TLSv1.3"), done


async def test_names_resolve_with_the_systems_own_calls(shared: AsyncSandbox, world: World) -> None:
    done = await python(
        shared,
        "import json\n"
        "def look(name):\n"
        "    try: return sorted({one[4][0] for one in socket.getaddrinfo(name, 80)})\n"
        "    except socket.gaierror as error: return error.errno\n"
        "names = 'web.example.com', 'WEB.example.com.', 'evil.example.net', 'localhost'\n"
        "print(json.dumps([*map(look, names), socket.gethostbyaddr(look(names[0])[0])[0], socket.EAI_NONAME]))",
    )
    first, second, evil, local, back, unknown = json.loads(done.text)
    assert first == second
    assert first[0].startswith("127.64.")
    assert evil == unknown
    assert "127.0.0.1" in local
    assert back == "web.example.com"
    assert world.names.asked == [], "names exist inside before anybody outside is asked"


async def test_a_download_and_an_upload_are_exact(shared: AsyncSandbox, world: World) -> None:
    digest = hashlib.sha256(BIG).hexdigest()
    down = await shared.commands.run("curl -sS http://web.example.com/big -o big && sha256sum big", timeout=30)
    assert down.text.split() == [digest, "big"], down
    up = await shared.commands.run("curl -sS -T big http://web.example.com/upload && rm big", timeout=30)
    assert up.text == digest, up


async def test_both_ends_end_by_themselves(shared: AsyncSandbox, world: World) -> None:
    done = await python(
        shared,
        f"peer = connect('raw.example.com', {COUNTING})\n"
        "peer.sendall(bytes(1 << 20))\n"
        "peer.shutdown(socket.SHUT_WR)\n"
        "print(b''.join(iter(lambda: peer.recv(4096), b'')).decode())",
    )
    assert done.text.strip() == hashlib.sha256(bytes(1 << 20)).hexdigest(), done


async def test_an_upgraded_connection_goes_both_ways(shared: AsyncSandbox, world: World) -> None:
    done = await python(
        shared,
        f"peer = connect('raw.example.com', {UPGRADING})\n"
        "peer.sendall(b'GET /s HTTP/1.1\\r\\nHost: raw.example.com\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n\\r\\n')\n"
        "head = b''\n"
        "while not head.endswith(b'\\r\\n\\r\\n'): head += peer.recv(1)\n"
        "print(head.split(b'\\r\\n')[0].decode(), [echoed(peer, bytes(size)) for size in (1, 125, 70000)])",
    )
    assert done.text.strip() == "HTTP/1.1 101 Switching Protocols [True, True, True]", done


async def test_sixty_four_at_once_are_all_served(shared: AsyncSandbox, world: World) -> None:
    done = await python(
        shared,
        "import asyncio\n"
        "async def one(number, everybody):\n"
        f"    reader, writer = await asyncio.open_connection('raw.example.com', {TCP})\n"
        "    writer.write(b'%4d' % number)\n"
        "    first = await reader.readexactly(4)\n"
        "    everybody.append(number)\n"
        "    while len(everybody) < 64: await asyncio.sleep(0)\n"
        "    writer.write(bytes(20000))\n"
        "    writer.write_eof()\n"
        "    return int(first) == number and len(await reader.read(-1)) == 20000\n"
        "async def main():\n"
        "    everybody = []\n"
        "    return await asyncio.gather(*(one(number, everybody) for number in range(64)))\n"
        "print(sum(asyncio.run(main())))",
    )
    assert done.text.strip() == "64", done
    assert len(world.canaries[PUBLIC[0], TCP].visits) == 64


async def test_the_codes_own_servers_stay_its_own(shared: AsyncSandbox, world: World) -> None:
    """Beside rules for the same ports, whoever comes first."""
    done = await python(
        shared,
        "import threading\n"
        "def serve(address, port):\n"
        "    server = socket.create_server((address, port))\n"
        "    def forever():\n"
        "        while True:\n"
        "            with server.accept()[0] as peer: peer.sendall(b'mine')\n"
        "    threading.Thread(target=forever, daemon=True).start()\n"
        "def outside(port): return echoed(connect('local.example.com', port))\n"
        f"found = [outside({TCP})]\n"
        f"for address, port in ('127.0.0.1', 443), ('127.0.0.1', 8443), ('0.0.0.0', {TCP}): serve(address, port)\n"
        f"found += [connect(name, port).recv(9) == b'mine' for name in ('127.0.0.1', 'localhost') for port in (443, 8443, {TCP})]\n"
        f"print(all(found), outside({TCP}))",
    )
    assert done.text.strip() == "True True", done
