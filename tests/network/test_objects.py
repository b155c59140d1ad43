"""One bucket prefix from inside real sandboxes: boto3 and curl as they are, a real store outside, and no credentials between."""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from dayfly import AsyncSandbox
from dayfly.network import ObjectsRule
from dayfly.policy import Policy
from tests.egress.objects.store import BUCKET, CONTENT, KEY_ID, SECRET, Store, size
from tests.network.lake import Keys
from tests.network.search import places_of
from tests.network.world import STORE, World, in_kernel, python

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

BOTO = ("boto3", "botocore", "s3transfer", "jmespath", "urllib3", "dateutil", "six")


@pytest.fixture(scope="module")
def boto() -> Iterator[Path]:
    """Of this very environment, as a directory that can be mounted."""
    with tempfile.TemporaryDirectory() as directory:
        for name in BOTO:
            found = importlib.util.find_spec(name)
            assert found is not None
            assert found.origin is not None
            origin = Path(found.origin)
            if origin.name == "__init__.py":
                shutil.copytree(origin.parent, Path(directory) / name)
            else:
                shutil.copy(origin, directory)
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lake(earth: World, store: Store, boto: Path) -> AsyncIterator[AsyncSandbox]:
    common = {"bucket": BUCKET, "endpoint": f"https://{STORE}:{store.secure_port}", "credentials": "lake-key"}
    rules = [
        ObjectsRule(objects={**common, "prefix": "data/"}, private="127.0.0.0/8"),
        ObjectsRule(objects={**common, "prefix": "out/", "access": ["read", "write", "list"]}, private="127.0.0.0/8"),
    ]
    policy = Policy(image="data", network=rules, mounts=[{"source": boto, "target": "/boto"}])
    async with (
        earth.house(means=Keys()) as house,
        AsyncSandbox(policy, opener=house.manager, env={"PYTHONPATH": "/boto"}) as made,
    ):
        yield made


@pytest.fixture
def asked(lake: AsyncSandbox, world: World) -> World:
    world.names.table[STORE] = [["127.0.0.1"]]
    return world


CLIENT = """
import boto3, io, json
from botocore.exceptions import ClientError
s3 = boto3.client('s3')
def refused(call):
    try: return str(call())
    except ClientError as error: return error.response['Error']['Code'] + ': ' + error.response['Error']['Message']
"""


async def test_boto3_reads_writes_and_lists_without_any_credentials(lake: AsyncSandbox, asked: World) -> None:
    done = await in_kernel(
        lake,
        CLIENT
        + "found = [s3.get_object(Bucket='lake', Key='data/a.csv')['Body'].read().decode()]\n"
        + "s3.upload_fileobj(io.BytesIO(bytes(9 << 20)), 'lake', 'out/big')\n"
        + "found.append(s3.head_object(Bucket='lake', Key='out/big')['ContentLength'])\n"
        + "found += [one['Key'] for one in s3.list_objects_v2(Bucket='lake', Prefix='data/')['Contents']]\n"
        + "found += [one['Name'] for one in s3.list_buckets()['Buckets']]\n"
        + "print(json.dumps(found))",
    )
    assert done.ok, done
    assert json.loads(done.stdout) == [CONTENT["data/a.csv"].decode(), 9 << 20, "data/a.csv", "data/sub/b.txt", "lake"]
    assert done.denied == ()


async def test_what_is_not_below_the_prefix_is_refused_with_the_reason(lake: AsyncSandbox, asked: World) -> None:
    done = await in_kernel(
        lake,
        CLIENT
        + "print(json.dumps([refused(call) for call in (\n"
        + " lambda: s3.get_object(Bucket='lake', Key='secret.txt'),\n"
        + " lambda: s3.get_object(Bucket='lake', Key='data-other/secret.txt'),\n"
        + " lambda: s3.list_objects_v2(Bucket='lake'),\n"
        + " lambda: s3.put_object(Bucket='lake', Key='data/new', Body=b'1'),\n"
        + " lambda: s3.copy_object(Bucket='lake', Key='out/x', CopySource='lake/secret.txt'),\n"
        + " lambda: s3.put_object_acl(Bucket='lake', Key='out/big', ACL='public-read'))]))",
    )
    assert done.ok, done
    answers = json.loads(done.stdout)
    assert all(one.startswith("AccessDenied: ") and "s3://lake/data/" in one for one in answers), answers
    assert {one.code for one in done.denied} == {"object_not_listed"}
    assert sum(one.count for one in done.denied) == 6


async def test_another_bucket_has_no_name(lake: AsyncSandbox, asked: World) -> None:
    done = await lake.commands.run(
        "curl -sS http://objects.dayfly.internal/swamp/data/a.csv; curl -sS http://swamp.objects.dayfly.internal/data/a.csv"
    )
    assert "AccessDenied" in done.text
    assert b"Could not resolve host" in done.stderr
    assert asked.names.asked == []


async def test_paths_that_are_no_keys_lead_nowhere(lake: AsyncSandbox, asked: World) -> None:
    """As raw requests, since clients tidy up."""
    paths = [
        "/lake/data/../secret.txt", "/lake/data/%2e%2e/secret.txt", "/lake/data/..%2fsecret.txt", "/lake/data/%252e%252e/secret.txt",
        "/lake/data//../secret.txt", "/lake/%2e%2e/swamp/secret.txt", "//lake/secret.txt", "/lake/secret.txt", "/lake/data/%5c..%5csecret.txt",
        "/lake?prefix=data/&prefix=", "/lake?list-type=2&prefix=", "/lake/?prefix=data/%2e%2e/", "/lake/data/a.csv?versionId=null",
    ]  # fmt: skip
    code = """
import json
def get(path, host):
    peer = connect(host, 80)
    peer.sendall(f'GET {path} HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n'.encode())
    return b''.join(iter(lambda: peer.recv(65536), b'')).decode()
print(json.dumps([get(path, 'objects.dayfly.internal') for path in ['/lake/data/a.csv', *sys.argv[1:]]]))
"""
    done = await python(lake, code, *paths)
    first, *others = json.loads(done.text)
    assert "1,2" in first, "the control"
    assert not any("of others" in one or "secret.txt</Key>" in one for one in others)
    assert all(one.startswith(("HTTP/1.1 403", "HTTP/1.1 400")) for one in others), others


async def test_no_credential_is_inside(lake: AsyncSandbox, asked: World) -> None:
    used = await lake.commands.run(
        "curl -sSi http://objects.dayfly.internal/lake/data/nothing http://objects.dayfly.internal/lake/data/a.csv; env"
    )
    assert "AWS_ENDPOINT_URL_S3" in used.text
    assert KEY_ID not in used.text
    assert SECRET not in used.text
    assert await places_of(lake, KEY_ID, SECRET) == []


async def test_what_was_written_is_in_the_store(lake: AsyncSandbox, asked: World, store: Store) -> None:
    done = await lake.commands.run(
        "printf hello > five && curl -sS -T five http://lake.objects.dayfly.internal/out/five"
    )
    assert done.ok, done
    assert size(store, "out/five") == 5
