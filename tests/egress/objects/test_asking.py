"""What a request is read as. Whatever is sent, what is allowed is within a rule, and what is sent on is read as the same again."""

from __future__ import annotations

import itertools
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.egress.http.messages import Request
from dayfly.egress.services.objects.asking import BadRequest, Unlisted, asked, bucket_of
from dayfly.egress.services.objects.keys import BadSpelling, begins_with, checked_key, escaped, unescaped
from dayfly.egress.services.objects.operations import OPERATIONS, PARAMETERS
from dayfly.egress.services.objects.rules import ObjectsRules
from dayfly.network.objects import OBJECTS_HOST
from dayfly.urls import BadPath, canonical_path
from tests.egress.objects.asks import READ, WRITE, ask, denied

LAKE = f"lake.{OBJECTS_HOST}"

READ_AS = {
    "GET /": ("ListBuckets", "", ""),
    "HEAD /lake": ("HeadBucket", "lake", ""),
    "HEAD /lake/": ("HeadBucket", "lake", ""),
    "GET /lake?location": ("GetBucketLocation", "lake", ""),
    "GET /lake": ("ListObjects", "lake", ""),
    "GET /lake/?list-type=2&prefix=data%2Fx&x-id=ListObjectsV2": ("ListObjectsV2", "lake", ""),
    "GET /lake?uploads=": ("ListMultipartUploads", "lake", ""),
    "POST /lake?delete": ("DeleteObjects", "lake", ""),
    "GET /lake/data/a?x-id=GetObject": ("GetObject", "lake", "data/a"),
    "GET /lake/data/a?partNumber=2": ("GetObject", "lake", "data/a"),
    "HEAD /lake/data/a": ("HeadObject", "lake", "data/a"),
    "PUT /lake/data/a": ("PutObject", "lake", "data/a"),
    "DELETE /lake/data/a": ("DeleteObject", "lake", "data/a"),
    "POST /lake/data/a?uploads": ("CreateMultipartUpload", "lake", "data/a"),
    "PUT /lake/data/a?partNumber=1&uploadId=u-1": ("UploadPart", "lake", "data/a"),
    "POST /lake/data/a?uploadId=u-1": ("CompleteMultipartUpload", "lake", "data/a"),
    "DELETE /lake/data/a?uploadId=u-1": ("AbortMultipartUpload", "lake", "data/a"),
    "GET /lake/data/a?uploadId=u-1&max-parts=5": ("ListParts", "lake", "data/a"),
    "GET /lake/data/%C3%A4%20b%2Bc%25": ("GetObject", "lake", "data/ä b+c%"),
    "GET /lake/data/dir/": ("GetObject", "lake", "data/dir/"),
    "GET /lake/data/.hidden/a..b/...": ("GetObject", "lake", "data/.hidden/a..b/..."),
}


@pytest.mark.parametrize("line", READ_AS)
def test_a_request_is_one_operation(line: str) -> None:
    found = asked(OBJECTS_HOST, ask(line))
    assert (found.operation.name, found.bucket, found.key) == READ_AS[line]


def test_the_bucket_may_be_in_the_name() -> None:
    found = asked(LAKE, ask("GET /data/a"))
    assert (found.operation.name, found.bucket, found.key) == ("GetObject", "lake", "data/a")
    assert asked(LAKE, ask("GET /?list-type=2")).operation.name == "ListObjectsV2"
    assert asked(LAKE, ask("GET /lake/data/a")).key == "lake/data/a"
    assert (bucket_of(OBJECTS_HOST), bucket_of(f"a.b.{OBJECTS_HOST}")) == ("", "a.b")


def test_copies_have_a_source() -> None:
    for text in ("/lake/data/a%20b", "lake/data/a%20b"):
        found = asked(OBJECTS_HOST, ask("PUT /lake/out/a", x_amz_copy_source=text))
        assert (found.operation.name, found.source) == ("CopyObject", ("lake", "data/a b"))
    part = asked(OBJECTS_HOST, ask("PUT /lake/out/a?partNumber=1&uploadId=u", x_amz_copy_source="lake/data/a"))
    assert part.operation.name == "UploadPartCopy"


def test_no_two_operations_fit_one_request() -> None:
    """However the parameters of one are chosen."""
    for one in OPERATIONS:
        for size in range(len(one.may) + 1):
            for more in itertools.combinations(sorted(one.may), size):
                names = [*one.needs, *more]
                fitting = [other for other in OPERATIONS if other.fits(one.method, one.level, names, one.source)]
                assert fitting == [one]
        assert one.needs | one.may <= set(PARAMETERS)


UNLISTED = [
    *(f"{method} /lake/data/a?{name}" for method in ("GET", "PUT", "DELETE", "POST") for name in (
        "acl", "tagging", "versionId=1", "torrent", "retention", "legal-hold", "attributes", "restore", "select",
        "renameObject", "uploads=1", "response-content-type=text%2Fhtml", "foo", "X-Amz-Signature=0", "AWSAccessKeyId=0",
    )),
    *(f"{method} /lake?{name}" for method in ("GET", "PUT", "DELETE", "POST") for name in (
        "acl", "policy", "website", "cors", "lifecycle", "versioning", "versions", "replication", "notification",
        "logging", "encryption", "tagging", "object-lock", "publicAccessBlock", "accelerate", "session", "inventory",
    )),
    "PUT /lake", "DELETE /lake", "POST /lake", "POST /lake/data/a", "PATCH /lake/data/a", "OPTIONS /lake/data/a",
    "TRACE /lake/data/a", "get /lake/data/a", "PUT /", "POST /", "DELETE /",
    "GET /lake/data/a?x-id=PutObject", "GET /lake?list-type=3&prefix=data/", "GET /lake?prefix=data/&fetch-owner=true",
    "GET /lake?list-type=2&prefix=data/&fetch-owner=true", "GET /lake/data/a?partNumber=x",
    "GET /lake/data/a?uploadId=../x", "GET /lake?Prefix=data/", "GET /lake?prefix=data/&allow-unordered=true",
]  # fmt: skip


@pytest.mark.parametrize("line", UNLISTED)
async def test_what_is_in_no_table_is_refused(line: str) -> None:
    assert (await denied(line)).code == "object_not_listed"


HEADERS = {
    "x-amz-acl": "public-read",
    "x-amz-grant-read": "uri=x",
    "x-amz-tagging": "a=b",
    "x-amz-website-redirect-location": "/x",
    "x-amz-object-lock-mode": "COMPLIANCE",
    "x-amz-server-side-encryption": "aws:kms",
    "x-amz-server-side-encryption-aws-kms-key-id": "arn:x",
    "x-amz-server-side-encryption-customer-key": "k",
    "x-amz-storage-class": "GLACIER",
    "x-amz-request-payer": "requester",
    "x-amz-mfa": "1",
    "x-amz-bypass-governance-retention": "true",
    "x-amz-write-offset-bytes": "5",
    "x-amz-copy-source-version-id": "1",
    "x-amz-anything": "new",
}


@pytest.mark.parametrize("name", HEADERS)
async def test_a_header_of_amazons_in_no_table_is_refused(name: str) -> None:
    found = await denied("PUT /lake/out/a", b"1", **{name: HEADERS[name]})
    assert found.code == "object_not_listed"
    assert name in found.reason


AMBIGUOUS = [
    "GET /lake/data/a+b", "GET /lake/data/%FF", "GET /lake/data/%", "GET /lake/data/%2", "GET /lake/data/%00",
    "GET /lake/data/a%0Ab", "GET /lake/data/%5C..%5Cx", "GET /lake/data//a", "GET /lake//data/a", "GET //lake/data/a",
    "GET /lake/data/../secret", "GET /lake/data/./a", "GET /lake/data/%2E%2E/secret", "GET /lake/data/..",
    "GET /lake/data/%252E%252E/secret", "GET /lake/data/%25252E%25252E/secret", "GET /lake/data/%252F%252Fa",
    "GET /lake/data/%25252525252525252E", "GET /lake/data/%255Ca", f"GET /lake/data/{'a' * 1024}",
    "GET /Lake/data/a", "GET /la_ke/data/a", "GET /l/data/a", "GET /lake%2Fdata/a", "GET /..%2Fx/a", "GET /.lake/a",
    "GET /lake?prefix=data/&prefix=other/", "GET /lake?prefix=data/+a", "GET /lake?prefix=data/../", "GET /lake?prefix=%FF",
    "GET /lake?prefix=data%2F%252E%252E%2F", "GET /lake?prefix=data//", "GET /lake/data/a?" + "x=1&" * 3000,
]  # fmt: skip


@pytest.mark.parametrize("line", AMBIGUOUS)
async def test_what_others_could_read_in_another_way_is_refused(line: str) -> None:
    assert (await denied(line)).code in ("bad_request", "object_not_listed")
    with pytest.raises((BadRequest, Unlisted)):
        asked(OBJECTS_HOST, ask(line))


SOURCES = [
    "lake/data/../secret.txt", "lake/data%2F..%2Fsecret.txt", "lake/data/a?versionId=1", "lake", "lake/", "/lake//data/a",
    "arn:aws:s3:us-east-1:1:accesspoint/x/object/data/a", "lake/data/a+b", "http://lake/data/a", "lake/data/%252E%252E/x", "",
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
async def test_a_source_that_is_not_one_object_is_refused(source: str) -> None:
    assert (await denied("PUT /lake/out/a", x_amz_copy_source=source)).code in ("bad_request", "object_not_listed")


def test_headers_of_the_sandbox_stay_there() -> None:
    found = asked(
        OBJECTS_HOST,
        ask(
            "PUT /lake/out/a",
            b"1",
            authorization="AWS4-HMAC-SHA256 x",
            cookie="c",
            x_amz_security_token="t",
            x_amz_date="d",
            user_agent="u",
            x_forwarded_for="f",
            content_type="text/csv",
            content_encoding="aws-chunked,gzip",
            x_amz_meta_by="me",
        ),
    )
    assert found.headers == (("content-encoding", "gzip"), ("content-type", "text/csv"), ("x-amz-meta-by", "me"))


async def test_headers_that_could_be_two_are_refused() -> None:
    twice = Request("PUT", "/lake/out/a", headers=(("content-type", "a"), ("content-type", "b")))
    with pytest.raises(BadRequest, match="twice"):
        asked(OBJECTS_HOST, twice)
    for name, value in (("x-amz-meta-a", "ä"), ("content-type", "a\tb"), ("x-amz-meta-a b", "c")):
        with pytest.raises((BadRequest, Unlisted)):
            asked(OBJECTS_HOST, Request("PUT", "/lake/out/a", headers=((name, value),)))


# --- whatever is sent ---------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    ["lake", "data", "out", "data/", "out/", "/", "//", ".", "..", "%2e", "%2E", "%252e", "%2f", "%2F", "%5c", "+", "%20", "%2B",
     "a", "ä", "%C3%A4", "%ff", "%00", "data-other", "secret", "swamp", ";", "=", "@", ":", "%", "%25", "~", "*"]
)  # fmt: skip
PATHS = st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=30)).map(lambda text: "/" + text)
VALUES = st.one_of(st.lists(PIECES, max_size=6).map("".join), st.sampled_from(["", "1", "2", "url", "false"]))
QUERIES = st.lists(
    st.tuples(st.sampled_from([*PARAMETERS, "acl", "versionId", "x-id", "PREFIX"]), VALUES), max_size=4
).map(lambda pairs: "&".join(f"{name}={value}" for name, value in pairs))
METHODS = st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"])
SOURCE = st.one_of(st.none(), st.lists(PIECES, max_size=8).map("".join))
RULES = ObjectsRules([(0, READ), (1, WRITE)])


def plainly_within(key: str, prefix: str) -> bool:
    """Judged in another way than the code does: as a directory, however often it is unescaped."""
    for _ in range(10):
        parts = key.split("/")
        if ".." in parts or "." in parts or not key.startswith(prefix) or "\\" in key:
            return False
        key = unquote(key, errors="replace")
    return True


@given(METHODS, st.sampled_from([OBJECTS_HOST, LAKE]), PATHS, QUERIES, SOURCE)
def test_what_is_allowed_is_within_a_rule_and_reads_the_same_again(
    method: str, host: str, path: str, query: str, source: str | None
) -> None:
    headers = () if source is None else (("x-amz-copy-source", source),)
    try:
        found = asked(host, Request(method, canonical_path(path), query, headers))
    except (BadPath, BadRequest, Unlisted):
        return
    again = found.request()
    assert again.path == canonical_path(again.path)
    assert asked(OBJECTS_HOST, again) == found
    if found.operation.access is None:
        return
    rule = RULES.allowing(found, [found.prefix])
    if rule is not None:
        one = rule[1].objects
        assert found.bucket == one.bucket
        assert found.operation.access in one.access
        assert plainly_within(found.prefix, one.prefix)
        if found.source is not None:
            assert found.source[0] == "lake"
            assert any(plainly_within(found.source[1], prefix) for prefix in ("data/", "out/"))


@given(st.text(max_size=40))
def test_a_key_is_sent_as_the_one_that_was_judged(text: str) -> None:
    try:
        key = checked_key(f"data/{text}")
    except BadSpelling:
        return
    assert unescaped(escaped(key, "/")) == key == unquote(quote(key))
    assert canonical_path("/" + escaped(key, "/")) == "/" + escaped(key, "/")
    assert begins_with(key, "data/")


def test_a_neighbour_of_a_prefix_is_not_below_it() -> None:
    assert begins_with("data/x%2Fy", "data/")
    assert not begins_with("data-other/x", "data/")
    assert not begins_with("data", "data/")
    assert not begins_with("%64ata/x", "data/")
    assert begins_with("anything", "")
