"""Building images from the command line: with progress, and with a throw-away sandbox for what must run inside."""

from __future__ import annotations

from dayfly import Policy, Sandbox
from dayfly.cli.progress import reporting
from dayfly.errors import HostError
from dayfly.images import build, build_derived, shipped_recipe
from dayfly.images.recipe import Recipe
from dayfly.limits import MIB, Limits
from dayfly.paths import Paths
from dayfly.spec import Image, Outcome

__all__ = ["build_image", "derive_image"]

_WARM_LIMITS = Limits(output=24 * MIB, run_seconds=300, run_cpu_seconds=300)


def build_image(recipe: Recipe | str, paths: Paths) -> Image:
    """Build a recipe, or one that is shipped under that name, and show the progress. Raises like ``images.build``."""
    wanted = shipped_recipe(recipe) if isinstance(recipe, str) else recipe
    with reporting(f"image {wanted.name}") as progress:
        return build(wanted, progress, paths=paths, run_inside=_Warming(paths))


def derive_image(base: str, add: list[str], name: str, paths: Paths) -> Image:
    """Build an image like ``base`` with more packages. Raises like ``images.build_derived``."""
    with reporting(f"image {name}") as progress:
        return build_derived(base, add, name, progress, paths=paths, run_inside=_Warming(paths))


class _Warming:
    """Runs Python in a sandbox of an image that is not in the store yet."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def __call__(self, image: Image, source: str) -> bytes:
        from dayfly.agent_bundle import agent_for
        from dayfly.boundaries.gvisor import GvisorBoundary
        from dayfly.manager import Manager

        paths = self._paths
        manager = Manager(
            {"gvisor": GvisorBoundary(paths)}, _Only(image), lambda it: agent_for(it, paths.data / "agents")
        )
        with Sandbox(Policy(limits=_WARM_LIMITS), opener=manager) as sandbox:
            execution = sandbox.run_code(source)
        if execution.outcome is not Outcome.OK:
            raise HostError(f"warming the image failed: {execution!r}", remedy="run: dayfly doctor")
        return execution.stdout.encode("utf-8", "surrogateescape")


class _Only:
    """An image source with one image, which its builder holds."""

    def __init__(self, image: Image) -> None:
        self._image = image

    def resolve(self, name: str) -> Image:
        return self._image

    def lease(self, image: Image) -> _Only:
        return self

    def close(self) -> None:
        """There is nothing to give back."""
