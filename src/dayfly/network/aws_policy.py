"""What an identity of AWS needs for rules for objects, as a policy document of IAM: the same bounds again, kept by the store itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dayfly.network.objects import Access, BucketPrefix, Objects

__all__ = ["aws_policy"]

_ACTIONS: dict[Access, list[str]] = {
    "read": ["s3:GetObject"],
    "write": ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
    "list": ["s3:ListBucket"],
}
"""By the table of the gateway's operations. Not ``s3:ListBucketMultipartUploads``, which IAM cannot bound to a prefix."""


def aws_policy(ones: Sequence[Objects], puts: Sequence[BucketPrefix] = ()) -> dict[str, Any]:
    """A document that allows what ``ones`` allow, and to put objects below ``puts``, and nothing else."""
    statements: list[dict[str, Any]] = []
    for made in (*(made for one in ones for made in _statements(one)), *map(_put, puts)):
        if made not in statements:
            statements.append(made)
    return {"Version": "2012-10-17", "Statement": statements}


def _names(one: BucketPrefix) -> tuple[str, str]:
    """Of the bucket, and of what is below the prefix."""
    return f"arn:{_partition(one.region)}:s3:::{one.bucket}", one.prefix.replace("$", "${$}") + "*"


def _put(one: BucketPrefix) -> dict[str, Any]:
    bucket, below = _names(one)
    return {"Effect": "Allow", "Action": ["s3:PutObject"], "Resource": f"{bucket}/{below}"}


def _statements(one: Objects) -> Iterator[dict[str, Any]]:
    bucket, below = _names(one)
    for access in one.access:
        made: dict[str, Any] = {"Effect": "Allow", "Action": _ACTIONS[access]}
        if access != "list":
            made["Resource"] = f"{bucket}/{below}"
        else:
            made["Resource"] = bucket
            if one.prefix:
                made["Condition"] = {"StringLike": {"s3:prefix": below}}
        yield made


def _partition(region: str) -> str:
    """Of the ones that AWS has, which do not know each other."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
