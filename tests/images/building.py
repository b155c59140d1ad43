"""Run by the builder's tests as a program of its own: build a recipe in a data directory and tell every stage.

``python building.py RECIPE DATA`` prints one line a stage, then ``built DIGEST``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dayfly.images import Step, build, load_recipe
from dayfly.paths import Paths


def main(recipe: str, data: str) -> None:
    told: set[str] = set()

    def tell(step: Step) -> None:
        if step.stage not in told:
            told.add(step.stage)
            print(step.stage.value, flush=True)

    image = build(load_recipe(Path(recipe)), tell, paths=Paths(Path(data), Path(data) / "run"))
    print("built", image.digest, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
