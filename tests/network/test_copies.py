"""One bucket prefix as files, in real sandboxes and with a real store: the code inside has no network at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from dayfly import AsyncSandbox, EndReason, InputError, PolicyError, SandboxEnded, StoreFailed
from dayfly.network import ObjectsRule
from dayfly.policy import Policy
from tests.egress.objects.store import KEY_ID, SECRET, Store, put, seen
from tests.network.lake import Keys, place
from tests.network.search import places_of
from tests.network.world import STORE, House, World, python

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

BIG = bytes(range(256)) * (3 << 12)
"""3 MiB: more than is put at once out of memory."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lodge(earth: World) -> AsyncIterator[House]:
    async with earth.house(means=Keys()) as made:
        yield made


@pytest.fixture(autouse=True)
def asked(world: World) -> World:
    world.names.table[STORE] = [["127.0.0.1"]]
    return world


def sandbox(lodge: House, **policy: Any) -> AsyncSandbox:
    return AsyncSandbox(Policy(**{"image": "tiny", **policy}), opener=lodge.manager)


async def test_objects_are_files_before_anything_runs(lodge: House, store: Store) -> None:
    put(store, {"in/a.csv": b"x,y\n1,2\n", "in/sub/b c+é.txt": b"bee", "in/empty": b"", "in/big": BIG})
    async with sandbox(lodge, inputs=[place(store, "in/", to="lake")]) as made:
        done = await python(
            made,
            "import hashlib, pathlib\n"
            "for one in sorted(pathlib.Path('lake').rglob('*')):\n"
            "    print(one, hashlib.sha256(one.read_bytes()).hexdigest()[:8] if one.is_file() else 'dir', one.owner())",
        )
        assert done.ok, done
        lines = [line.rpartition(" ")[0] for line in done.text.splitlines()]
        assert [line.rpartition(" ")[0] for line in lines] == [
            "lake/a.csv",
            "lake/big",
            "lake/empty",
            "lake/sub",
            "lake/sub/b c+é.txt",
        ]
        assert await made.files.read("lake/big") == BIG
        assert await made.files.read("lake/sub/b c+é.txt") == b"bee"
        await made.files.write("lake/a.csv", b"its own now")


async def test_files_are_objects_when_it_ends(lodge: House, store: Store) -> None:
    async with sandbox(lodge, outputs=[place(store, "results/1/", **{"from": "out"})]) as made:
        await made.files.write("out/report.txt", b"done")
        await made.files.write("out/deep/er/big", BIG)
        await made.files.write("out/empty", b"")
        await made.files.write("elsewhere", b"not this")
    found = seen(store, "results/1/")
    assert found == {"results/1/report.txt": b"done", "results/1/deep/er/big": BIG, "results/1/empty": b""}


async def test_files_are_objects_when_somebody_asks(lodge: House, store: Store) -> None:
    async with sandbox(lodge, outputs=[place(store, "results/2/")]) as made:
        assert (await made.save_outputs()).left_out[0].reason == "is not there"
        await made.files.write("outputs/a", b"first")
        saved = await made.save_outputs()
        assert (saved.keys, saved.size, saved.left_out_count, saved.problem) == (("results/2/a",), 5, 0, None)
        assert seen(store, "results/2/") == {"results/2/a": b"first"}
        await made.files.write("outputs/a", b"second")
    assert seen(store, "results/2/") == {"results/2/a": b"second"}


async def test_its_clocks_end_it_in_good_order(lodge: House, store: Store) -> None:
    for number, limits in enumerate(({"idle_seconds": 1}, {"lifetime_seconds": 2})):
        prefix = f"results/clock/{number}/"
        made = await sandbox(lodge, limits=limits, outputs=[place(store, prefix)]).open()
        await made.files.write("outputs/a", b"x")
        (life,) = [life for life in lodge.manager._lives if life.id == made.id]
        end = await life.ended()
        assert end.reason in (EndReason.IDLE_TIMEOUT, EndReason.MAX_LIFETIME)
        await made.close()
        assert seen(store, prefix) == {f"{prefix}a": b"x"}


async def test_a_bad_end_saves_nothing(lodge: House, store: Store) -> None:
    async with sandbox(lodge, outputs=[place(store, "results/bad/")]) as made:
        await made.files.write("outputs/a", b"x")
        (life,) = [life for life in lodge.manager._lives if life.id == made.id]
        await life.kill(EndReason.QUARANTINED, "not trusted any more")
        with pytest.raises(SandboxEnded):
            await made.save_outputs()
    assert seen(store, "results/bad/") == {}


async def test_what_is_no_plain_file_is_left_out_and_said(lodge: House, store: Store) -> None:
    hostile = """
mkdir -p out/dir && cd out && echo fine > fine && echo secret > ../outside
ln -s /etc/passwd passwd; ln -s ../outside outside; ln -s .. up; mkfifo pipe
printf x > 'back\\slash'; printf x > "$(printf 'new\\nline')"; printf x > "$(printf 'raw\\377')"; printf x > '%2e%2e%2fescaped'
ln fine dir/hard; chmod 0 dir/hard; mkdir locked; printf x > locked/a; chmod 0 locked; chmod 000 fine; chmod 644 fine
head -c 100 /dev/zero > unread; chmod 0 unread
"""
    async with sandbox(lodge, outputs=[place(store, "results/3/", **{"from": "out"})]) as made:
        assert (await made.commands.run(hostile)).ok
        saved = await made.save_outputs()
    reasons = {one.path.removeprefix("out/"): one.reason for one in saved.left_out}
    assert saved.keys == ("results/3/dir/hard", "results/3/fine"), saved
    assert reasons == {
        "passwd": "is a symbolic link",
        "outside": "is a symbolic link",
        "up": "is a symbolic link",
        "pipe": "is no regular file",
        "back\\slash": "has a backslash or a control character",
        "new\nline": "has a backslash or a control character",
        "raw\udcff": "has a name that is not UTF-8",
        "%2e%2e%2fescaped": "has an empty segment or one of dots",
        "locked": "cannot be listed: denied",
        "unread": "cannot be read: denied",
    }
    assert saved.left_out_count == len(reasons)
    assert seen(store, "results/3/") == {"results/3/dir/hard": b"fine\n", "results/3/fine": b"fine\n"}


async def test_a_directory_that_is_a_link_is_none(lodge: House, store: Store) -> None:
    async with sandbox(lodge, outputs=[place(store, "results/4/", **{"from": "out"})]) as made:
        await made.commands.run("ln -s /etc out")
        saved = await made.save_outputs()
        assert (saved.keys, saved.left_out[0].reason) == ((), "is no directory")


async def test_a_file_that_grows_is_as_long_as_it_was(lodge: House, store: Store) -> None:
    grows = "mkdir out; (while :; do head -c 65536 /dev/zero >> out/log; done) > /dev/null 2>&1 & sleep 1; ls out"
    async with sandbox(lodge, outputs=[place(store, "results/5/", **{"from": "out"})]) as made:
        assert (await made.commands.run(grows)).text == "log\n"
        saved = await made.save_outputs()
        assert saved.keys == ("results/5/log",), saved
        await made.commands.run("pkill -f head; true")
        assert len(seen(store, "results/5/")["results/5/log"]) == saved.size


async def test_a_directory_of_more_than_a_page_is_saved_whole(lodge: House, store: Store) -> None:
    """By one, both ways: a page has a thousand."""
    many = "import os\nos.mkdir('out')\nfor n in range(1_001): open(f'out/{n:05}', 'w').close()"
    async with sandbox(lodge, outputs=[place(store, "results/many/", **{"from": "out"})]) as made:
        assert (await python(made, many)).ok
        saved = await made.save_outputs()
        assert saved.keys == tuple(f"results/many/{number:05}" for number in range(1_001))
        await made.commands.run("rm -r out")
    async with sandbox(lodge, inputs=[place(store, "results/many/")]) as again:
        assert (await again.commands.run("ls inputs | wc -l")).text.strip() == "1001"


async def test_more_than_may_be_moved_is_left_out(lodge: House, store: Store) -> None:
    async with sandbox(lodge, outputs=[place(store, "results/cap/", max_bytes="64KiB")]) as made:
        await made.files.write("outputs/a", b"x" * 1000)
        await made.files.write("outputs/b", b"x" * 100_000)
        saved = await made.save_outputs()
        assert saved.keys == ("results/cap/a",)
        assert "is larger than" in saved.left_out[0].reason
        await made.files.remove("outputs", recursive=True)


async def test_a_cap_of_bytes_is_for_the_sandboxs_life(lodge: House, store: Store) -> None:
    made = await sandbox(lodge, outputs=[place(store, "results/cap2/", max_bytes="64KiB")]).open()
    await made.files.write("outputs/a", b"x" * 40_000)
    assert (await made.save_outputs()).keys == ("results/cap2/a",)
    for _ in range(2):
        with pytest.raises(StoreFailed, match="max_bytes"):
            await made.save_outputs()
    with pytest.raises(StoreFailed, match="max_bytes"):
        await made.close()


async def test_inputs_that_cannot_be_leave_no_sandbox(lodge: House, store: Store) -> None:
    put(store, {"much/a": b"x" * 5000})
    refused: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
        "bytes": (place(store, "much/", max_bytes="4KiB"), InputError, "max_bytes is 4 KiB"),
        "store": (place(store, "in/", endpoint="https://store.example.com:9"), StoreFailed, "not reached"),
        "bucket": (place(store, "in/", bucket="nowhere"), StoreFailed, "NoSuchBucket"),
        "place": (place(store, "in/", to="/etc/inputs"), InputError, "cannot be written"),
    }
    for given, kind, words in refused.values():
        with pytest.raises(kind, match=words) as caught:
            await sandbox(lodge, inputs=[given]).open()
        assert getattr(caught.value, "remedy", None)
    assert lodge.manager._lives == {}


async def test_a_store_that_fails_at_the_end_is_no_silence(lodge: House, store: Store) -> None:
    nobody = place(store, "out/", endpoint=f"https://{STORE}:9")
    made = await sandbox(lodge, outputs=[nobody]).open()
    await made.files.write("outputs/a", b"x")
    with pytest.raises(StoreFailed, match="not reached"):
        await made.save_outputs()
    with pytest.raises(StoreFailed, match="has ended and its outputs were not saved"):
        await made.close()
    assert lodge.manager._lives == {}


async def test_nothing_inside_can_reach_the_store(lodge: House, asked: World, store: Store) -> None:
    """With inputs and outputs of it, and no network. The control is the rule that would let it."""
    put(store, {"in/a.csv": b"1"})
    reach = (
        "curl -sS -m 5 http://objects.dayfly.internal/lake/in/a.csv http://lake.objects.dayfly.internal/in/a.csv; "
        f"curl -sSk -m 5 https://{STORE}:{store.secure_port}/; env | grep -c AWS_; cat /proc/net/tcp /proc/net/udp | wc -l"
    )
    copies = {"inputs": [place(store, "in/")], "outputs": [place(store, "results/6/")]}
    async with sandbox(lodge, image="data", **copies) as made:
        asked.names.asked.clear()
        done = await made.commands.run(reach)
        assert done.text.split()[0] == "0"
        assert done.stderr.count(b"Could not resolve host") == 3, done
        listening = await made.commands.run("cat /proc/net/tcp | grep -c ' 0A '")
        assert listening.text.strip() == "0"
        assert await places_of(made, KEY_ID, SECRET, "lake-key") == []
        assert asked.names.asked == []
    common = {name: value for name, value in place(store, "in/").items() if name != "private"}
    rule = ObjectsRule(objects=common, private="127.0.0.0/8")
    async with sandbox(lodge, image="data", network=[rule]) as control:
        done = await control.commands.run("curl -sS http://objects.dayfly.internal/lake/in/a.csv; env | grep -c AWS_")
        assert done.text.startswith("1")


async def test_a_spare_gets_what_its_policy_names(lodge: House, store: Store) -> None:
    from dayfly.manager.templates import Template

    put(store, {"in/a.csv": b"1"})
    policy = Policy(image="tiny", inputs=[place(store, "in/")], outputs=[place(store, "results/7/")])
    spares = lodge.manager.keep(Template("lake", policy))
    try:
        await asyncio.wait_for(spares.full(), 60)
        async with AsyncSandbox(policy, opener=lodge.manager) as made:
            assert await made.files.read("inputs/a.csv") == b"1"
            await made.files.write("outputs/b", b"2")
    finally:
        await spares.close()
        del lodge.manager._spares["lake"]
    assert seen(store, "results/7/") == {"results/7/b": b"2"}


async def test_a_pause_is_no_end_and_a_fork_has_no_outputs(lodge: House, store: Store) -> None:
    copies = {"inputs": [place(store, "in/")], "outputs": [place(store, "results/8/")]}
    async with sandbox(lodge, **copies) as made:
        await made.files.write("inputs/a.csv", b"changed")
        await made.files.write("outputs/a", b"1")
        (twin,) = await made.fork()
        async with twin:
            assert twin.policy.outputs == ()
            await twin.files.write("outputs/a", b"of the fork")
            with pytest.raises(PolicyError, match="no outputs"):
                await twin.save_outputs()
        await made.pause()
        assert seen(store, "results/8/") == {}
        await made.resume()
        assert await made.files.read("inputs/a.csv") == b"changed"
    assert seen(store, "results/8/") == {"results/8/a": b"1"}
