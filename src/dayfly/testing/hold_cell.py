"""A program for the boundary contract kit: opens one cell and holds it until it is killed.

``python -m dayfly.testing.hold_cell MODULE:FUNCTION ARGUMENT [CODE]`` calls the function with the argument to get a
``Subject``, opens a cell, runs CODE inside without waiting for its end, prints one line of JSON with the cell's id, and
stays.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys

from dayfly.testing.boundary_subject import Subject
from dayfly.testing.echo import Echo


async def hold(subject: Subject, code: str) -> None:
    cell = await subject.boundary.open(subject.make_spec())
    echo = Echo(cell.stream)
    await echo.run("pass")
    if code:
        await echo.start(code)
        await echo.answer()
    print(json.dumps({"id": cell.id}), flush=True)  # noqa: T201 - what it is for
    await cell.wait()


def main(factory: str, argument: str, code: str = "") -> None:
    module, _, name = factory.partition(":")
    subject = getattr(importlib.import_module(module), name)(argument)
    asyncio.run(hold(subject, code))


if __name__ == "__main__":
    main(*sys.argv[1:])
