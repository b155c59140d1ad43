"""Spares with real gVisor: claims are warm, personal and never shared."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dayfly import AsyncSandbox
from dayfly.errors import InputError, PolicyError
from dayfly.limits import Limits
from dayfly.manager import Manager, Template, embedded
from dayfly.policy import Policy
from dayfly.testing.traces import descendants


@pytest_asyncio.fixture
async def manager() -> AsyncIterator[Manager]:
    before = descendants()  # of other tests' sandboxes
    made = embedded()
    yield made
    await made.close()
    assert descendants() <= before


async def test_claims_are_personal_and_share_nothing(manager: Manager) -> None:
    spares = manager.keep(Template("python", Policy(image="python"), spares=2))
    await spares.full()
    own = Policy(image="python", limits=Limits(run_seconds=20.5))
    anna = await manager.open(own, env={"WHO": "anna"})
    bert = await manager.open(Policy(image="python"), env={"WHO": "bert"})
    assert len(spares) < 2, "both came from the spares"
    for life, name in ((anna, "anna"), (bert, "bert")):
        assert (await life.execute("import os; print(os.environ['WHO'])")).stdout == f"{name}\n"
        assert (await life.execute("echo $WHO > ~/mine; ls ~", language="bash")).stdout == "mine\n"
    assert [next(one.value for one in life.limits if one.name == "run_seconds") for life in (anna, bert)] == [20.5, 60]
    assert (await anna.execute("while True: pass", timeout=0.3)).outcome == "timeout"
    assert anna.id != bert.id
    await spares.full()


async def test_what_does_not_fit_is_opened_cold(manager: Manager) -> None:
    spares = manager.keep(Template("python", Policy(image="python"), spares=1))
    await spares.full()
    life = await manager.open(Policy(image="python", limits=Limits(memory="512MiB")))
    assert len(spares) == 1
    assert {limit.name: limit.value for limit in life.limits}["memory"] == 512 << 20


async def test_the_client_gets_a_spare_as_any_sandbox(manager: Manager) -> None:
    spares = manager.keep(Template("python", Policy(image="python"), spares=1))
    await spares.full()
    async with AsyncSandbox({"image": "python"}, env={"A": "b"}, opener=manager) as sandbox:
        assert (await sandbox.run_code("import os; os.environ['A']")).text == "'b'"


async def test_bad_templates_are_refused(manager: Manager) -> None:
    manager.keep(Template("t", Policy(), spares=0))
    with pytest.raises(InputError, match="already"):
        manager.keep(Template("t", Policy()))
    await manager.close()
    with pytest.raises(InputError, match="closed"):
        manager.keep(Template("u", Policy()))


async def test_bad_environment_is_refused_before_a_spare_is_taken(manager: Manager) -> None:
    spares = manager.keep(Template("python", Policy(image="python"), spares=1))
    await spares.full()
    with pytest.raises((InputError, PolicyError)):
        await manager.open(Policy(image="python"), env={"A=B": "c"})
    assert len(spares) == 1


async def test_a_preloaded_spare_has_its_modules_and_looks_unused(manager: Manager) -> None:
    spares = manager.keep(Template("data", Policy(image="data"), preload=("numpy", "xml.dom.minidom")))
    await spares.full()
    life = await manager.open(Policy(image="data"), env={"WHO": "anna"})
    assert len(spares) == 0, "it came from the spares"
    done = await life.execute(
        "import os, sys; print({'numpy', 'xml.dom.minidom'} <= {*sys.modules}, os.environ['WHO'], 'numpy' in dir()); 1"
    )
    assert (done.stdout, done.execution_count, done.text) == ("True anna False\n", 1, "1")


async def test_spares_of_a_preloaded_template_are_restores_and_no_two_draw_the_same(manager: Manager) -> None:
    spares = manager.keep(Template("data", Policy(image="data"), spares=3, preload=("numpy",)))
    await spares.full()
    code = (
        "import numpy, random, secrets, sys, tempfile, uuid\n"
        "print('numpy' in sys.modules, random.random(), numpy.random.random(), uuid.uuid4(), secrets.token_hex(8),"
        " tempfile.mktemp(), open('/etc/machine-id').read().strip())"
    )
    drawn = []
    for number in range(3):
        life = await manager.open(Policy(image="data"), env={"N": str(number)})
        done = await life.execute(code)
        assert (done.error, done.execution_count) == (None, 1)
        loaded, *values = done.stdout.split()
        assert loaded == "True"
        drawn.append(values)
    assert all(len(set(column)) == 3 for column in zip(*drawn, strict=True)), drawn
