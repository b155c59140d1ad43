"""boto3, s3fs and pandas as they are, against a real store that checks signatures: what is below the prefixes works, nothing else does."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable
from typing import Any

import httpx
import pandas
import pytest
import s3fs
from botocore.exceptions import ClientError

from dayfly.network.objects import OBJECTS_HOST
from tests.egress.objects.adapter import Adapter
from tests.egress.objects.store import BUCKET, CONTENT, KEY_ID, OTHER, Store, client

INSIDE = f"http://{OBJECTS_HOST}"


async def told(call: Callable[[], Any]) -> tuple[str, str]:
    """Code and message of a refusal."""
    with pytest.raises(ClientError) as caught:
        await asyncio.to_thread(call)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


@pytest.fixture(params=["auto", "path", "virtual"])
def s3(gate: Adapter, request: pytest.FixtureRequest) -> Any:
    return inside(gate, request.param)


def inside(gate: Adapter, style: str = "auto") -> Any:
    return client(INSIDE, proxies=gate.proxy, s3={"addressing_style": style})


async def test_what_is_below_the_prefix_is_read(gate: Adapter, s3: Any) -> None:
    def use() -> list[Any]:
        found = s3.get_object(Bucket=BUCKET, Key="data/a.csv", Range="bytes=4-6")
        head = s3.head_object(Bucket=BUCKET, Key="data/sub/b.txt")
        listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="data/")
        old = s3.list_objects(Bucket=BUCKET, Prefix="data/", Delimiter="/")
        return [
            found["Body"].read(),
            head["ContentLength"],
            [one["Key"] for one in listed["Contents"]],
            [one["Prefix"] for one in old["CommonPrefixes"]],
        ]

    assert await asyncio.to_thread(use) == [b"1,2", 3, ["data/a.csv", "data/sub/b.txt"], ["data/sub/"]]
    assert {(one.rule, one.secret) for one in gate.answered} == {(2, "lake-key")}
    assert gate.denied == []


async def test_buckets_are_known_without_asking_the_store(gate: Adapter, s3: Any) -> None:
    def use() -> list[Any]:
        buckets = [one["Name"] for one in s3.list_buckets()["Buckets"]]
        region = s3.head_bucket(Bucket=BUCKET)["BucketRegion"]
        return [buckets, region, s3.get_bucket_location(Bucket=BUCKET).get("LocationConstraint")]

    assert await asyncio.to_thread(use) == [[BUCKET], "us-east-1", None]
    assert gate.upstreams.sent == []


async def test_what_is_written_is_there(gate: Adapter, s3: Any, store: Store) -> None:
    big = os.urandom(6 << 20)

    def use() -> None:
        s3.put_object(Bucket=BUCKET, Key="out/a b+c%.txt", Body=b"sea", ContentType="text/plain", Metadata={"by": "me"})
        s3.copy_object(Bucket=BUCKET, Key="out/copy.csv", CopySource={"Bucket": BUCKET, "Key": "data/a.csv"})
        s3.upload_fileobj(io.BytesIO(big), BUCKET, "out/big")
        s3.put_object(Bucket=BUCKET, Key="out/empty", Body=b"")

    await asyncio.to_thread(use)
    owner = store.owner()
    made = owner.get_object(Bucket=BUCKET, Key="out/a b+c%.txt")
    assert (made["Body"].read(), made["ContentType"], made["Metadata"]) == (b"sea", "text/plain", {"by": "me"})
    assert owner.get_object(Bucket=BUCKET, Key="out/copy.csv")["Body"].read() == CONTENT["data/a.csv"]
    assert owner.get_object(Bucket=BUCKET, Key="out/big")["Body"].read() == big
    assert owner.get_object(Bucket=BUCKET, Key="out/empty")["Body"].read() == b""
    assert {one.rule for one in gate.answered} == {5}


async def test_parts_are_put_together(gate: Adapter, s3: Any, store: Store) -> None:
    first, second = os.urandom(5 << 20), os.urandom(5 << 20)

    def use() -> list[Any]:
        key = {"Bucket": BUCKET, "Key": "out/parts"}
        upload = s3.create_multipart_upload(**key)["UploadId"]
        tags = [
            s3.upload_part(**key, UploadId=upload, PartNumber=number, Body=data)["ETag"]
            for number, data in ((1, first), (2, second))
        ]
        copied = s3.upload_part_copy(
            **key, UploadId=upload, PartNumber=3, CopySource={"Bucket": BUCKET, "Key": "data/a.csv"}
        )
        tags.append(copied["CopyPartResult"]["ETag"])
        listed = [one["PartNumber"] for one in s3.list_parts(**key, UploadId=upload)["Parts"]]
        uploads = [one["Key"] for one in s3.list_multipart_uploads(Bucket=BUCKET, Prefix="out/").get("Uploads", [])]
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        s3.complete_multipart_upload(**key, UploadId=upload, MultipartUpload={"Parts": parts})
        gone = s3.create_multipart_upload(**key)["UploadId"]
        s3.abort_multipart_upload(**key, UploadId=gone)
        return [listed, uploads]

    assert await asyncio.to_thread(use) == [[1, 2, 3], ["out/parts"]]
    made = store.owner().get_object(Bucket=BUCKET, Key="out/parts")["Body"].read()
    assert made == first + second + CONTENT["data/a.csv"]


async def test_objects_are_deleted(gate: Adapter, s3: Any, store: Store) -> None:
    owner = store.owner()
    names = ["out/one", "out/two & <three>", "out/four"]
    for name in names:
        owner.put_object(Bucket=BUCKET, Key=name, Body=b"1")

    def use() -> Any:
        s3.delete_object(Bucket=BUCKET, Key=names[0])
        return s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": name} for name in names[1:]]})

    done = await asyncio.to_thread(use)
    assert [one["Key"] for one in done["Deleted"]] == names[1:]
    assert owner.list_objects_v2(Bucket=BUCKET, Prefix="out/").get("Contents") is None


REFUSED: dict[str, Callable[[Any], Any]] = {
    "another key": lambda s3: s3.get_object(Bucket=BUCKET, Key="secret.txt"),
    "a neighbour of the prefix": lambda s3: s3.get_object(Bucket=BUCKET, Key="data-other/secret.txt"),
    "another bucket": lambda s3: s3.get_object(Bucket=OTHER, Key="data/a.csv"),
    "another bucket's list": lambda s3: s3.list_objects_v2(Bucket=OTHER, Prefix="data/"),
    "the whole list": lambda s3: s3.list_objects_v2(Bucket=BUCKET),
    "the old whole list": lambda s3: s3.list_objects(Bucket=BUCKET),
    "the list of the prefix without its slash": lambda s3: s3.list_objects_v2(Bucket=BUCKET, Prefix="data"),
    "uploads of others": lambda s3: s3.list_multipart_uploads(Bucket=BUCKET),
    "writing where one reads": lambda s3: s3.put_object(Bucket=BUCKET, Key="data/new", Body=b"1"),
    "deleting where one reads": lambda s3: s3.delete_object(Bucket=BUCKET, Key="data/a.csv"),
    "deleting many, one elsewhere": lambda s3: s3.delete_objects(
        Bucket=BUCKET, Delete={"Objects": [{"Key": "out/x"}, {"Key": "data/a.csv"}]}
    ),
    "a version": lambda s3: s3.get_object(Bucket=BUCKET, Key="data/a.csv", VersionId="1"),
    "copying from elsewhere": lambda s3: s3.copy_object(
        Bucket=BUCKET, Key="out/stolen", CopySource={"Bucket": BUCKET, "Key": "secret.txt"}
    ),
    "copying from another bucket": lambda s3: s3.copy_object(
        Bucket=BUCKET, Key="out/stolen", CopySource={"Bucket": OTHER, "Key": "data/a.csv"}
    ),
    "copying to elsewhere": lambda s3: s3.copy_object(
        Bucket=BUCKET, Key="data/b.csv", CopySource={"Bucket": BUCKET, "Key": "data/a.csv"}
    ),
    "a public object": lambda s3: s3.put_object(Bucket=BUCKET, Key="out/x", Body=b"1", ACL="public-read"),
    "a redirecting object": lambda s3: s3.put_object(
        Bucket=BUCKET, Key="out/x", Body=b"1", WebsiteRedirectLocation="/secret.txt"
    ),
    "the rights of an object": lambda s3: s3.get_object_acl(Bucket=BUCKET, Key="data/a.csv"),
    "giving rights": lambda s3: s3.put_object_acl(Bucket=BUCKET, Key="out/x", ACL="public-read"),
    "the policy": lambda s3: s3.get_bucket_policy(Bucket=BUCKET),
    "a new policy": lambda s3: s3.put_bucket_policy(Bucket=BUCKET, Policy="{}"),
    "tags": lambda s3: s3.get_object_tagging(Bucket=BUCKET, Key="data/a.csv"),
    "versions": lambda s3: s3.list_object_versions(Bucket=BUCKET, Prefix="data/"),
    "a bucket of one's own": lambda s3: s3.create_bucket(Bucket="mine"),
    "no bucket any more": lambda s3: s3.delete_bucket(Bucket=BUCKET),
    "lifecycle": lambda s3: s3.get_bucket_lifecycle_configuration(Bucket=BUCKET),
    "select": lambda s3: s3.select_object_content(
        Bucket=BUCKET, Key="data/a.csv", Expression="select 1", ExpressionType="SQL",
        InputSerialization={"CSV": {}}, OutputSerialization={"CSV": {}},
    ),
    "restoring": lambda s3: s3.restore_object(Bucket=BUCKET, Key="data/a.csv", RestoreRequest={"Days": 1}),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
async def test_all_else_is_refused_and_never_leaves(gate: Adapter, store: Store, what: str) -> None:
    s3 = inside(gate)
    code, message = await told(lambda: REFUSED[what](s3))
    assert code == "AccessDenied"
    assert "Allowed is: read, list in s3://lake/data/; read, write, list in s3://lake/out/." in message
    assert [one.code for one in gate.denied] == ["object_not_listed"]
    assert gate.upstreams.sent == [], "nothing of it was sent"


async def test_a_presigned_address_is_no_way_in(gate: Adapter) -> None:
    s3 = inside(gate, "path")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "data/a.csv"})
    async with httpx.AsyncClient(trust_env=False, proxy=gate.proxy["http"]) as plain:
        assert (await plain.get(url)).status_code == 403
        assert (await plain.get(url.partition("?")[0])).content == CONTENT["data/a.csv"], "that needs no signature"


async def test_the_real_credentials_are_needed_and_stay_outside(gate: Adapter, store: Store) -> None:
    with pytest.raises(ClientError, match=r"InvalidAccessKeyId|SignatureDoesNotMatch"):
        client(store.endpoint).get_object(Bucket=BUCKET, Key="data/a.csv")
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        client(store.endpoint, KEY_ID, "another").get_object(Bucket=BUCKET, Key="data/a.csv")
    s3 = inside(gate)
    got = await asyncio.to_thread(lambda: s3.get_object(Bucket=BUCKET, Key="data/a.csv"))
    assert KEY_ID not in str(got) + repr(gate.answered)
    sent = gate.upstreams.sent[0].header("authorization") or ""
    assert KEY_ID in sent
    assert "nobody" not in sent


async def test_an_error_of_the_store_is_told_from_ours(gate: Adapter, s3: Any) -> None:
    code, message = await told(lambda: s3.get_object(Bucket=BUCKET, Key="data/nothing"))
    assert (code, gate.denied) == ("NoSuchKey", [])
    assert message.startswith("The object store answered: ")


@pytest.fixture
def files(gate: Adapter) -> s3fs.S3FileSystem:
    return s3fs.S3FileSystem(**options(gate), skip_instance_cache=True)


def options(gate: Adapter) -> dict[str, Any]:
    return {"key": "nobody", "secret": "nothing", "endpoint_url": INSIDE, "config_kwargs": {"proxies": gate.proxy}}


async def test_s3fs_reads_writes_and_is_refused(gate: Adapter, files: s3fs.S3FileSystem) -> None:
    def use() -> list[Any]:
        files.makedirs(f"{BUCKET}/out/x", exist_ok=True)
        files.pipe(f"{BUCKET}/out/x/new.txt", b"new")
        with files.open(f"{BUCKET}/out/x/large", "wb", block_size=5 << 20) as out:
            out.write(bytes(11 << 20))
        found = [
            sorted(files.ls(f"{BUCKET}/data")),
            files.cat(f"{BUCKET}/data/sub/b.txt"),
            files.exists(f"{BUCKET}/data/no"),
            files.find(f"{BUCKET}/out"),
            files.info(f"{BUCKET}/out/x/large")["size"],
            files.glob(f"{BUCKET}/data/*.csv"),
            files.isdir(f"{BUCKET}/data"),
        ]
        files.cp(f"{BUCKET}/data/a.csv", f"{BUCKET}/out/x/a.csv")
        files.rm(f"{BUCKET}/out/x", recursive=True)
        return [*found, files.exists(f"{BUCKET}/out/x/large")]

    assert await asyncio.to_thread(use) == [
        ["lake/data/a.csv", "lake/data/sub"],
        b"bee",
        False,
        ["lake/out/x/large", "lake/out/x/new.txt"],
        11 << 20,
        ["lake/data/a.csv"],
        True,
        False,
    ]
    assert gate.denied == []
    with pytest.raises(PermissionError, match="Forbidden"):
        await asyncio.to_thread(files.cat_file, f"{BUCKET}/secret.txt")


async def test_pandas_reads_and_writes(gate: Adapter) -> None:

    def use() -> Any:
        frame = pandas.read_csv(f"s3://{BUCKET}/data/a.csv", storage_options=options(gate))
        frame.assign(z=frame.x + frame.y).to_csv(f"s3://{BUCKET}/out/z.csv", index=False, storage_options=options(gate))
        return pandas.read_csv(f"s3://{BUCKET}/out/z.csv", storage_options=options(gate)).z.tolist()

    assert await asyncio.to_thread(use) == [3, 7]
    with pytest.raises(PermissionError):
        await asyncio.to_thread(pandas.read_csv, f"s3://{BUCKET}/secret.txt", storage_options=options(gate))
