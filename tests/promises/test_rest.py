"""What counts as something that goes on inside, with real kernels: only a sandbox in which nothing does is frozen."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dayfly.manager import embedded
from dayfly.manager.recorded import RecordedLife
from dayfly.policy import Policy


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def life() -> AsyncIterator[RecordedLife]:
    manager = embedded()
    yield await manager.open(Policy(image="data"))
    await manager.close()


QUIET = [
    ("python", "x = 1"),
    ("python", "import numpy, pandas; pandas.DataFrame({'a': [1]}).sum()"),
    ("python", "import threading; t = threading.Thread(target=int); t.start(); t.join()"),
    ("python", "import asyncio; await asyncio.sleep(0)"),
    ("python", "import os; os.system('true')"),
    ("python", "1/0"),
    ("bash", "x=1; ls > /dev/null"),
    ("javascript", "globalThis.x = 1"),
    ("javascript", "await new Promise((resolve) => setTimeout(resolve, 1))"),
]
GOING_ON = [
    ("python", "import threading; e = threading.Event(); threading.Thread(target=e.wait).start()", "e.set()"),
    ("python", "import subprocess; p = subprocess.Popen(['sleep', '1000'])", "p.kill(); p.wait()"),
    ("bash", "sleep 1000 &", "kill %1; wait"),
    ("javascript", "globalThis.t = setInterval(() => {}, 1000); 1", "clearInterval(t)"),
    ("javascript", "globalThis.s = require('net').createServer().listen(0); 1", "s.close(); await 0"),
]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("language", "code"), QUIET)
async def test_after_this_nothing_goes_on(life: RecordedLife, language: str, code: str) -> None:
    await life.execute(code, language=language)
    assert not await life._is_busy()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("language", "code", "over"), GOING_ON)
async def test_this_goes_on_until_it_is_ended(life: RecordedLife, language: str, code: str, over: str) -> None:
    assert (await life.execute(code, language=language)).error is None
    assert await life._is_busy()
    await life.execute(over, language=language)
    await life.execute("0" if language != "bash" else ":", language=language)
    assert not await life._is_busy()
