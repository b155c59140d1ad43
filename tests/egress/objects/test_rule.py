"""A rule for objects: what may be written, in which words it is refused, and what follows from it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from dayfly.egress.guests import Guest
from dayfly.egress.rules import Rules
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Allowed
from dayfly.errors import PolicyError
from dayfly.network import ObjectsRule
from dayfly.network.aws_policy import aws_policy
from dayfly.network.objects import LONGEST_PREFIX, OBJECTS_HOST, Objects
from dayfly.policy import Policy, parse_policy
from dayfly.server.reach import Reach

WRITTEN = """
[[network]]
max_bytes = "1GiB"
[network.objects]
bucket = "lake"
prefix = "in/2026/"
endpoint = "HTTPS://S3.EU-central-1.amazonaws.com:443/"
region = "eu-central-1"
credentials = "lake-key"

[[network]]
objects = {bucket = "lake", prefix = "out/", access = ["list", "write"], endpoint = "http://minio:9000", credentials = "w"}
private = "10.1.0.0/16"
max_bytes = "1GiB"
"""


def test_a_policy_reads_it_from_toml_and_comes_back_from_json() -> None:
    policy = parse_policy(tomllib.loads(WRITTEN))
    first, second = policy.network
    assert isinstance(first, ObjectsRule)
    assert isinstance(second, ObjectsRule)
    assert first.objects.endpoint == "https://s3.eu-central-1.amazonaws.com"
    assert first.objects.access == ("read", "list")
    assert second.objects.access == ("write", "list")
    assert (second.objects.scheme, second.objects.host, second.objects.port) == ("http", "minio", 9000)
    assert Policy.model_validate(policy.model_dump(mode="json")) == policy
    assert Policy.model_validate_json(policy.model_dump_json()) == policy
    assert hash(policy) == hash(Policy.model_validate(policy.model_dump()))


def test_what_follows_from_it() -> None:
    first, second = parse_policy(tomllib.loads(WRITTEN)).network
    assert (first.leads_to, first.secrets, first.service, first.spoken) == (
        "s3.eu-central-1.amazonaws.com", {"lake-key"}, "objects", "http",
    )  # fmt: skip
    assert first.key != second.key
    variables = dict(first.environment)
    assert variables["AWS_ENDPOINT_URL_S3"] == f"http://{OBJECTS_HOST}"
    assert variables["AWS_REGION"] == variables["AWS_DEFAULT_REGION"] == "eu-central-1"
    assert "lake-key" not in str(variables)
    rules = Rules((first, second))
    for host in (OBJECTS_HOST, f"lake.{OBJECTS_HOST}"):
        assert rules.judge(host, 80) == Allowed(host, 80, 0, "http")
    assert not isinstance(rules.judge(f"swamp.{OBJECTS_HOST}", 80), Allowed)
    assert not isinstance(rules.judge("s3.eu-central-1.amazonaws.com", 443), Allowed), (
        "the store itself is out of reach"
    )


def made(private: str | None = None, **objects: Any) -> ObjectsRule:
    given = {"bucket": "lake", "prefix": "data/", "endpoint": "https://store.example", "credentials": "key", **objects}
    return ObjectsRule(objects={name: value for name, value in given.items() if value is not None}, private=private)


REFUSED = [
    ({"prefix": None}, "objects.prefix is missing", "give objects.prefix"),
    ({"credentials": None}, "objects.credentials is missing", "give objects.credentials"),
    ({"endpoint": None}, "objects.endpoint is missing", "give objects.endpoint"),
    *(({"bucket": one}, "not a bucket's name", "3 to 63") for one in (
        "", "ab", "a" * 64, "Lake", "la_ke", "-lake", "lake-", "a..b", ".lake", "lake.", "a.-b", "a-.b", "192.168.1.1",
        "lake/data", "lake\n", "läke", "lake?", "*",
    )),
    *(({"prefix": one}, "is not names with a slash behind each", "write 'data/'") for one in (
        "data", "/data/", "/", "a//", "a/../", "./", "../", "a/./b/", "a/b",
    )),
    *(({"prefix": one}, "has a star, a question mark", "write it as it is") for one in (
        "data/*", "*/", "d?ta/", "data%2F/", "a\\b/", "a\nb/", "a\x7f/",
    )),
    ({"prefix": "a" * LONGEST_PREFIX + "/"}, "is longer than 512 bytes", "further up"),
    *(({"access": one}, "not what may be done", "write access = ['read', 'list']") for one in (
        [], "admin", ["read", "acl"], {"read": True}, 5,
    )),
    *(({"endpoint": one}, "not the URL of a host alone", "write it as 'https://") for one in (
        "store.example", "ftp://store.example", "https://", "https://store.example/lake", "https://store.example?x=1",
        "https://store.example?", "https://store.example/#a", "https://user:pass@store.example", "https://@store.example",
        " https://store.example", "s3://lake",
    )),
    ({"endpoint": "https://[::1"}, "not a URL", "write it as"),
    ({"endpoint": "https://93.184.216.34"}, "is an IP address", "a name in DNS"),
    ({"endpoint": "https://[::1]:9000"}, "is an IPv6 address", "a name in DNS"),
    ({"endpoint": "https://a_b.example"}, "has a character that no host name has", "write it as"),
    ({"endpoint": "https://store.example:99999"}, "has no port of 1 to 65535", "write it as"),
    ({"endpoint": "https://store.example:0"}, "has no port of 1 to 65535", "write it as"),
    ({"endpoint": "http://store.example"}, "is plain HTTP", "private = 'CIDR'"),
    ({"endpoint": "https://minio:9000"}, "is a single label", "private = 'CIDR'"),
    ({"region": "EU West"}, "not a region", "eu-central-1"),
    ({"region": ""}, "not a region", "eu-central-1"),
    ({"credentials": "KEY:SECRET"}, "not a secret's name", "1 to 64"),
    ({"private": "0.0.0.0/0"}, "is not inside a private range", "10.0.0.0/8"),
    ({"acl": "public"}, "there is no key 'objects.acl'", "did you mean"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message", "remedy"), REFUSED)
def test_what_is_wrong_is_said_with_what_to_do(given: dict[str, Any], message: str, remedy: str) -> None:
    with pytest.raises(PolicyError) as caught:
        made(**given)
    assert message in caught.value.message
    if remedy != "did you mean":
        assert remedy in (caught.value.remedy or "")


def test_the_same_prefix_is_not_listed_twice() -> None:
    one = made().model_dump()
    with pytest.raises(PolicyError, match="rule 1 is there twice"):
        Policy(network=[one, one])
    assert len(Policy(network=[one, made(access="write").model_dump()]).network) == 2


def test_bytes_of_all_rules_are_counted_together() -> None:
    """One connection serves all of them, so none may have a cap of its own."""
    first, second = made().model_dump(), made(access="write").model_dump()
    with pytest.raises(PolicyError, match="rule 1 has other caps"):
        Policy(network=[{**first, "max_bytes": "1MiB"}, second])
    Policy(network=[{**first, "max_bytes": "1MiB"}, {**second, "max_bytes": "1MiB"}])
    guest = Guest(later=lambda seconds, call: None)
    guest.admit(Terms(rules=(made(), made(bucket="swamp"))))
    meters = {id(guest.meter(allowed(guest, host))) for host in ("", "lake.", "swamp.")}
    assert len(meters) == 1


def test_a_connection_goes_by_all_rules() -> None:
    """A copy to one bucket may come from another one."""
    guest = Guest(later=lambda seconds, call: None)
    guest.admit(Terms(rules=(made(access="write"), made(bucket="swamp"))))
    before = guest.basis(allowed(guest, "lake."))
    guest.admit(Terms(rules=(made(access="write"),)))
    assert guest.basis(allowed(guest, "lake.")) != before


def allowed(guest: Guest, bucket: str) -> Allowed:
    found = guest.judge(f"{bucket}{OBJECTS_HOST}", 80)
    assert isinstance(found, Allowed)
    return found


def test_over_http_its_host_and_its_secret_are_asked_for() -> None:
    for reach, message in (
        (Reach(names=["store.example"]), "no rule may use the secret key here"),
        (Reach(secrets=["key"]), "no policy has a network here"),
        (Reach(names=["other.example"], secrets=["key"]), "is not a name"),
    ):
        with pytest.raises(PolicyError, match=message):
            reach.check((made(),))
    Reach(names=["store.example"], secrets=["key"]).check((made(),))


def one(**objects: Any) -> Objects:
    return made(**objects).objects


def test_the_policy_of_aws_is_exactly_what_the_rules_allow() -> None:
    rules = [one(), one(prefix="out/$x/", access=["write"], bucket="swamp"), one(prefix="", access="list")]
    assert aws_policy(rules) == {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::lake/data/*"},
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": "arn:aws:s3:::lake",
                "Condition": {"StringLike": {"s3:prefix": "data/*"}},
            },
            {
                "Effect": "Allow",
                "Action": [
                    "s3:PutObject",
                    "s3:DeleteObject",
                    "s3:AbortMultipartUpload",
                    "s3:ListMultipartUploadParts",
                ],
                "Resource": "arn:aws:s3:::swamp/out/${$}x/*",
            },
            {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": "arn:aws:s3:::lake"},
        ],
    }


@pytest.mark.parametrize(
    ("region", "partition"), [("eu-west-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_the_policy_of_aws_is_for_the_regions_partition(region: str, partition: str) -> None:
    (statement,) = aws_policy([one(region=region, access="read")])["Statement"]
    assert statement["Resource"] == f"arn:{partition}:s3:::lake/data/*"


def test_equal_statements_are_said_once() -> None:
    assert len(aws_policy([one(access="read"), one(access="read", credentials="other")])["Statement"]) == 1
