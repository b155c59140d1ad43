"""Files over HTTP: exact bytes both ways, parts, names that are no UTF-8, and what breaks off."""

from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import tarfile
from urllib.parse import quote

import httpx
import pytest

from tests.server.house import TINY, House


def put(client: httpx.Client, sandbox: str, path: str | bytes, data: bytes, **query: str) -> httpx.Response:
    more = "".join(f"&{name}={value}" for name, value in query.items())
    return client.put(f"{sandbox}/files?path={quote(path)}{more}", content=data)


def test_bytes_go_in_and_out_exactly(client: httpx.Client, room: str) -> None:
    data = os.urandom(3_000_000)
    assert put(client, room, "dir/data.bin", data, mode="600").json() == {"size": len(data)}
    got = client.get(f"{room}/files", params={"path": "dir/data.bin"})
    assert (got.status_code, hashlib.sha256(got.content).digest()) == (200, hashlib.sha256(data).digest())
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"] == "attachment"
    info = client.get(f"{room}/files/info", params={"path": "dir/data.bin"}).json()
    assert (info["kind"], info["size"], info["mode"], info["name"]) == ("file", len(data), 0o600, "data.bin")


@pytest.mark.parametrize(
    ("span", "status", "content"),
    [("bytes=0-0", 206, b"0"), ("bytes=2-5", 206, b"2345"), ("bytes=7-", 206, b"789"), ("bytes=-2", 206, b"89"),
     ("bytes=8-100", 206, b"89"), ("bytes=-100", 206, b"0123456789"), ("bytes=10-", 416, None), ("bytes=5-4", 416, None),
     ("bytes=-0", 416, None), ("bytes=0-1,3-4", 200, b"0123456789"), ("lines=1-2", 200, b"0123456789")],
)  # fmt: skip
def test_parts_of_a_file(client: httpx.Client, room: str, span: str, status: int, content: bytes | None) -> None:
    put(client, room, "digits", b"0123456789")
    got = client.get(f"{room}/files", params={"path": "digits"}, headers={"range": span})
    assert got.status_code == status
    if content is not None:
        assert got.content == content
    if status == 206:
        assert got.headers["content-range"].endswith("/10")


def test_how_a_file_is_written(client: httpx.Client, room: str) -> None:
    put(client, room, "a", b"1")
    put(client, room, "a", b"2", how="append")
    assert client.get(f"{room}/files?path=a").content == b"12"
    refused = put(client, room, "a", b"3", how="create")
    assert (refused.status_code, refused.json()["error"]["problem"]) == (400, "exists")
    assert put(client, room, "no/such/dir/a", b"", parents="false").json()["error"]["problem"] == "not_found"
    assert put(client, room, "a", b"", mode="9").status_code == 400
    assert put(client, room, "a", b"", how="eat").status_code == 400
    assert client.get(f"{room}/files?path=a").content == b"12"


def test_names_that_are_no_utf8_stay_exact(client: httpx.Client, room: str) -> None:
    name = b"caf\xe9 \xf0\x9f\x92\xa9"
    assert put(client, room, b"odd/" + name, b"x").status_code == 200
    assert put(client, room, "odd/\ufffd", b"y").status_code == 200, "the character itself is a name, too"
    assert client.get(f"{room}/files?path={quote(b'odd/' + name)}").content == b"x"
    assert client.get(f"{room}/files?path={quote('odd/' + chr(0xFFFD))}").content == b"y"
    listed = client.get(f"{room}/files/list?path=odd").json()
    assert {os.fsencode(one["name"]) for one in listed["files"]} == {name, "\ufffd".encode()}
    body = {"path": "odd/" + name.decode("utf-8", "surrogateescape"), "to": "odd/plain"}
    moved = client.post(f"{room}/files/rename", content=json.dumps(body), headers={"content-type": "application/json"})
    assert moved.status_code == 200
    assert client.get(f"{room}/files?path=odd/plain").content == b"x"


def test_directories(client: httpx.Client, room: str) -> None:
    make = f"{room}/files/mkdir"
    assert client.post(make, json={"path": "d/e"}).json() == {"made": True}
    assert client.post(make, json={"path": "d/e"}).json() == {"made": False}
    for name in "abc":
        put(client, room, f"d/e/{name}", b"")
    page = client.get(f"{room}/files/list", params={"path": "d/e", "limit": 2}).json()
    assert ([one["name"] for one in page["files"]], page["more"]) == (["a", "b"], True)
    page = client.get(f"{room}/files/list", params={"path": "d/e", "after": "b"}).json()
    assert ([one["name"] for one in page["files"]], page["more"]) == (["c"], False)
    assert client.post(f"{room}/files/remove", json={"path": "d"}).json()["error"]["problem"] == "not_empty"
    assert client.post(f"{room}/files/remove", json={"path": "d", "recursive": True}).json()["removed"] == 5


def test_a_link_out_or_a_device_gives_nothing_of_the_host(client: httpx.Client, room: str) -> None:
    code = "import os; os.symlink('/etc/hostname', 'link'); os.mkfifo('pipe'); open('plain', 'w').write('ok')"
    client.post(f"{room}/executions", json={"code": code})
    assert client.get(f"{room}/files?path=plain").text == "ok"
    assert client.get(f"{room}/files?path=pipe").json()["error"]["problem"] == "not_regular"
    for path in ("../../../../etc/shadow", "x\0y"):
        assert client.get(f"{room}/files", params={"path": path}).status_code == 400
    assert client.get(f"{room}/files?path=").status_code == 400
    assert client.get(f"{room}/files").status_code == 400


def test_an_upload_that_breaks_off_changes_nothing(client: httpx.Client, server: House, room: str) -> None:
    put(client, room, "kept", b"before")
    head = f"PUT {room}/files?path=kept HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key()}\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(f"{head}Content-Length: 1000000\r\n\r\n".encode() + b"x" * 1000)
    assert client.get(f"{room}/files?path=kept").content == b"before"


def test_an_upload_beyond_the_disk_limit_is_refused_or_ends_the_sandbox(client: httpx.Client) -> None:
    policy = {**TINY, "limits": {**TINY.get("limits", {}), "disk": "16MiB"}}  # type: ignore[dict-item]
    path = f"/v1/sandboxes/{client.post('/v1/sandboxes', json={'policy': policy}).json()['id']}"
    answer = client.put(f"{path}/files?path=large", content=(b"x" * 1_000_000 for _ in range(60)))
    error = answer.json()["error"]
    assert error.get("problem") == "no_space" or error.get("end_reason") == "disk_limit", error
    client.delete(path)


def test_a_large_upload_arrives_whole(client: httpx.Client, room: str) -> None:
    pieces = (b"x" * 1_000_000 for _ in range(30))
    assert client.put(f"{room}/files?path=large", content=pieces).json() == {"size": 30_000_000}
    assert client.get(f"{room}/files/info?path=large").json()["size"] == 30_000_000


def test_a_directory_as_a_tar_both_ways(client: httpx.Client, room: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo("inner/hello.txt")
        member.size = 5
        tar.addfile(member, io.BytesIO(b"hello"))
    put_in = client.put(f"{room}/tree?path=box", content=buffer.getvalue())
    assert put_in.status_code == 200, put_in.text
    assert put_in.json()["files"] >= 1
    out = client.get(f"{room}/tree?path=box")
    assert out.headers["content-type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(out.content)) as tar:
        names = [name for name in tar.getnames() if name.endswith("hello.txt")]
        assert tar.extractfile(names[0]).read() == b"hello"  # type: ignore[union-attr]
    assert client.get(f"{room}/tree?path=none").json()["error"]["problem"] == "not_found"


def test_changes_are_watched(client: httpx.Client, room: str) -> None:
    client.post(f"{room}/files/mkdir", json={"path": "seen"})
    with client.stream("GET", f"{room}/files/watch?path=seen") as answer:
        lines = (json.loads(line) for line in answer.iter_lines() if line)
        assert next(lines)["kind"] == "ready"
        put(client, room, "seen/new", b"x", how="create")
        assert next(lines)["path"].endswith("new")
    assert client.get(f"{room}/files/watch?path=none").status_code == 400
