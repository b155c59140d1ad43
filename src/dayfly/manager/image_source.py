"""Where a manager's images come from: a contract, so that it knows no store."""

from __future__ import annotations

from typing import Protocol

from dayfly.spec import Image

__all__ = ["ImageLease", "ImageSource"]


class ImageLease(Protocol):
    """Keeps an image from being removed while a sandbox uses it."""

    def close(self) -> None: ...


class ImageSource(Protocol):
    """What ``dayfly.images.Store`` is."""

    def resolve(self, name: str) -> Image: ...
    def lease(self, image: Image) -> ImageLease: ...
