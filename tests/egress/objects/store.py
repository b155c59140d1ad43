"""A real object store of the tests' own: SeaweedFS, which checks signatures. And somebody who holds its credentials."""

from __future__ import annotations

import hashlib
import json
import random
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

__all__ = [
    "BUCKET",
    "CONTENT",
    "KEY_ID",
    "OTHER",
    "SECRET",
    "Store",
    "client",
    "fill",
    "put",
    "running",
    "seen",
    "size",
]

KEY_ID, SECRET = "AKIDOFTHEREALOWNER", "real-secret-of-the-owner"
BUCKET, OTHER = "lake", "swamp"

CONTENT = {
    "data/a.csv": b"x,y\n1,2\n3,4\n",
    "data/sub/b.txt": b"bee",
    "data-other/secret.txt": b"of others",
    "other/secret.txt": b"of others",
    "secret.txt": b"of others",
}

_UP_SECONDS = 60.0
_ATTEMPTS = 3


class Messenger:
    """Somebody who holds the credentials, where the store is: one process, which fills it and then does what it is told."""

    def __init__(self, port: int, within: Sequence[str], log: Any) -> None:
        command = [*within, sys.executable, __file__, str(port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    def is_ready(self, seconds: float) -> bool:
        """Whether it has filled the store, or is gone; waits so long for that."""
        return bool(select.select([self._process.stdout], [], [], seconds)[0])

    def answer(self) -> Any:
        """Raises ``ValueError`` when it is gone."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, what: str, argument: object) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([what, argument]) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@dataclass(frozen=True)
class Store:
    port: int
    secure_port: int = 0
    messenger: Messenger | None = field(default=None, compare=False)

    @property
    def endpoint(self) -> str:
        return f"http://localhost:{self.port}"

    def size(self, key: str) -> int:
        """In bytes, of an object in ``BUCKET``."""
        return int(self.owner().head_object(Bucket=BUCKET, Key=key)["ContentLength"])

    def contents(self, prefix: str) -> dict[str, bytes]:
        """Of all objects below it, in ``BUCKET``."""
        pages = self.owner().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        keys = [one["Key"] for page in pages for one in page.get("Contents", [])]
        return {key: self.owner().get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}

    def keep(self, objects: Mapping[str, bytes]) -> None:
        """In ``BUCKET``."""
        owner = self.owner()
        for key, data in objects.items():
            owner.put_object(Bucket=BUCKET, Key=key, Body=data)

    def owner(self) -> Any:
        """A client of all of it."""
        return self._owner

    @cached_property
    def _owner(self) -> Any:
        return client(self.endpoint, KEY_ID, SECRET)  # which takes as long as a hundred requests


def client(endpoint: str, key: str = "nobody", secret: str = "nothing", **config: Any) -> Any:
    retries = {"total_max_attempts": 1}
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=Config(retries=retries, read_timeout=30, **config),
    )


@contextmanager
def running(within: Sequence[str] = (), certificate: Path | None = None) -> Iterator[Store]:
    """The server until the end of the block, on loopback; perhaps ``within`` other namespaces, by a command that goes there; with a
    ``certificate``, whose key is in the file ``key`` beside it, over TLS too. It stays by itself: nothing is reported to anybody."""
    with tempfile.TemporaryDirectory() as directory:
        store, process = _started(Path(directory), within, certificate)
        try:
            yield store
        finally:
            assert store.messenger is not None
            store.messenger.close()
            process.kill()
            process.wait()


def _started(directory: Path, within: Sequence[str], certificate: Path | None) -> tuple[Store, subprocess.Popen[bytes]]:
    """On ports that nobody has, or a moment later on others."""
    (directory / "s3.json").write_text(json.dumps(_IDENTITIES))
    log = directory / "log"
    for attempt in range(_ATTEMPTS):
        (directory / str(attempt)).mkdir()
        ports = _free(5)
        with log.open("ab") as out:
            command = [*within, *_command(directory, directory / str(attempt), ports), *_tls(ports[4], certificate)]
            process = subprocess.Popen(command, stdout=out, stderr=out)
            messenger = Messenger(ports[3], within, out)
        while not messenger.is_ready(0.02) and process.poll() is None:
            pass
        with suppress(ValueError):
            if process.poll() is None and messenger.answer() == "filled":
                return Store(ports[3], ports[4], messenger), process
        messenger.close()
        process.kill()
        process.wait()
    raise OSError(f"the object store did not come up:\n{log.read_text(errors='replace')[-4000:]}")


def _command(directory: Path, data: Path, ports: list[int]) -> list[str]:
    program = Path(sys.executable).parent / "weed"
    weed = str(program) if program.exists() else shutil.which("weed") or "weed"
    return [
        "setpriv", "--pdeathsig", "KILL",  # it does not outlive the tests, whatever becomes of them
        weed, "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false",
        f"-master.port={ports[0]}", f"-volume.port={ports[1]}", "-filer", f"-filer.port={ports[2]}",
        f"-filer.localSocket={directory}/filer.sock", f"-s3.localSocket={directory}/s3.sock",
        "-s3", f"-s3.port={ports[3]}", "-s3.port.iceberg=0", "-s3.port.lance=0",  # whose ports are everybody's
         f"-s3.config={directory}/s3.json", "-volume.max=16", "-master.volumeSizeLimitMB=64",
    ]  # fmt: skip


def _tls(port: int, certificate: Path | None) -> list[str]:
    if certificate is None:
        return []
    return [f"-s3.port.https={port}", f"-s3.cert.file={certificate}", f"-s3.key.file={certificate.with_name('key')}"]


_IDENTITIES = {
    "identities": [
        {
            "name": "owner",
            "credentials": [{"accessKey": KEY_ID, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
    ]
}


def _free(count: int) -> list[int]:
    """Ports below 20000: each has another one, 10000 above, beside it."""
    found: list[int] = []
    for port in random.sample(range(12000, 20000), 100):
        try:
            with closing(socket.create_server(("127.0.0.1", port))), closing(socket.create_server(("127.0.0.1", port + 10000))):  # fmt: skip
                found.append(port)
        except OSError:
            continue
        if len(found) == count:
            return found
    raise OSError("no free ports")


def fill(store: Store) -> None:
    """As soon as it is up: ``CONTENT`` in both buckets, and nothing else. Raises ``OSError``."""
    until = time.monotonic() + _UP_SECONDS
    while time.monotonic() < until:
        try:
            for bucket in (BUCKET, OTHER):
                _fill(store.owner(), bucket)
            return
        except (BotoCoreError, ClientError):  # nobody is there yet, or only a part of it
            time.sleep(0.1)
    raise OSError("nobody answers")


def _fill(owner: Any, bucket: str) -> None:
    there = _there(owner, bucket)
    for key in set(there) - set(CONTENT):
        owner.delete_object(Bucket=bucket, Key=key)
    for key, data in CONTENT.items():
        if there.get(key) != hashlib.md5(data, usedforsecurity=False).hexdigest():
            owner.put_object(Bucket=bucket, Key=key, Body=data)


def _there(owner: Any, bucket: str) -> dict[str, str]:
    """Digests (the store's, MD5) by keys; the bucket is made where there is none."""
    try:
        found = owner.list_objects_v2(Bucket=bucket).get("Contents", [])
    except owner.exceptions.NoSuchBucket:
        owner.create_bucket(Bucket=bucket)
        return {}
    return {one["Key"]: one["ETag"].strip('"') for one in found}


def seen(store: Store, prefix: str) -> dict[str, bytes]:
    """``contents``, asked where the store is."""
    return {key: bytes.fromhex(data) for key, data in _told(store, "contents", prefix).items()}


def put(store: Store, objects: Mapping[str, bytes]) -> None:
    """``keep``, asked where the store is."""
    _told(store, "keep", {key: data.hex() for key, data in objects.items()})


def size(store: Store, key: str) -> int:
    """In bytes, of an object, asked where the store is."""
    found: int = _told(store, "size", key)
    return found


def _told(store: Store, what: str, argument: object) -> Any:
    assert store.messenger is not None
    return store.messenger.ask(what, argument)


def _do(store: Store, what: str, argument: Any) -> object:
    if what == "contents":
        return {key: data.hex() for key, data in store.contents(argument).items()}
    if what == "keep":
        return store.keep({key: bytes.fromhex(data) for key, data in argument.items()})
    return store.size(argument)


def _main(port: str) -> None:
    store = Store(int(port))
    fill(store)
    print(json.dumps("filled"), flush=True)
    for line in sys.stdin:
        print(json.dumps(_do(store, *json.loads(line))), flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
