"""A real object store of the tests' own: SeaweedFS, which checks signatures. And somebody who holds its credentials."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

__all__ = ["BUCKET", "KEY_ID", "OTHER", "SECRET", "Store", "client", "running"]

KEY_ID, SECRET = "AKIDOFTHEREALOWNER", "real-secret-of-the-owner"
BUCKET, OTHER = "lake", "swamp"

_UP_SECONDS = 60.0


@dataclass(frozen=True)
class Store:
    port: int

    @property
    def endpoint(self) -> str:
        return f"http://localhost:{self.port}"

    def owner(self) -> Any:
        """A client of all of it."""
        return client(self.endpoint, KEY_ID, SECRET)


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
def running(within: Sequence[str] = (), address: str = "127.0.0.1", port: int | None = None) -> Iterator[Store]:
    """The server until the end of the block. It stays by itself: nothing is reported to anybody."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "s3.json").write_text(json.dumps(_IDENTITIES))
        (Path(directory) / "data").mkdir()
        ports = _free(4)
        s3 = port or ports[3]
        with open(Path(directory) / "log", "wb") as log:
            process = subprocess.Popen([*within, *_command(directory, address, ports, s3)], stdout=log, stderr=log)
        try:
            store = Store(s3)
            if not within:
                _wait(store, process, Path(directory) / "log")
            yield store
        finally:
            process.kill()
            process.wait()


def _command(directory: str, address: str, ports: list[int], s3: int) -> list[str]:
    program = Path(sys.executable).parent / "weed"
    weed = str(program) if program.exists() else shutil.which("weed") or "weed"
    return [
        weed, "server", f"-dir={directory}/data", f"-ip={address}", f"-ip.bind={address}", "-master.telemetry=false",
        f"-master.port={ports[0]}", f"-volume.port={ports[1]}", "-filer", f"-filer.port={ports[2]}",
        f"-filer.localSocket={directory}/filer.sock", f"-s3.localSocket={directory}/s3.sock",
        "-s3", f"-s3.port={s3}", f"-s3.config={directory}/s3.json", "-volume.max=16", "-master.volumeSizeLimitMB=64",
    ]  # fmt: skip


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
    for port in range(12000 + (time.time_ns() // 1000) % 7000, 20000):
        try:
            with closing(socket.create_server(("127.0.0.1", port))), closing(socket.create_server(("127.0.0.1", port + 10000))):  # fmt: skip
                found.append(port)
        except OSError:
            continue
        if len(found) == count:
            return found
    raise OSError("no free ports")


def _wait(store: Store, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _UP_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            urlopen(f"{store.endpoint}/", timeout=5).close()
        except URLError as error:
            if getattr(error, "code", None) is None:  # nobody is there yet
                time.sleep(0.05)
                continue
        try:
            for bucket in (BUCKET, OTHER):
                store.owner().create_bucket(Bucket=bucket)
                store.owner().put_object(Bucket=bucket, Key="ready", Body=b"1")
            return
        except ClientError:
            time.sleep(0.1)
    raise OSError(f"the object store did not come up:\n{log.read_text(errors='replace')[-2000:]}")
