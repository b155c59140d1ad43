"""The host's side of the network, over a scripted agent and a gateway in memory: tunnels, refusals, ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dayfly.egress.client import MOST_EARLY, Closed, EgressDenied, EgressUnreachable
from dayfly.egress.verdict import Denied
from dayfly.errors import HostError, PolicyError, SandboxEnded
from dayfly.network import LEARN_PORTS, Rule
from dayfly.policy import Policy
from dayfly.sandbox import Life
from dayfly.sandbox.claims import MAX_CLAIMS
from dayfly.sandbox.denials import KEPT, Denials
from dayfly.sandbox.network import LOOK_SECONDS
from dayfly.sandbox.surroundings import names_of
from dayfly.spec import Denial, EndReason
from dayfly.testing.scripted import Asked, ScriptedBoundary, scripted_spec
from dayfly.wire.connection import Received
from dayfly.wire.messages import Cancel, Data, Eof, Event, Fail, Finish, Resume
from dayfly.wire.operations import STDIN, STDOUT
from tests.sandbox.living import DONE, living

RULES = (Rule(host="files.example.com"), Rule(host="files.example.com", ports=(8443,)), Rule(host="*.example.org"))
DENIED = Denied("other.example.com", 443, "not_listed", "other.example.com is not on the list", "add a rule")


class MemoryTunnel:
    """The gateway's end of one connection."""

    def __init__(self) -> None:
        self.denied: Denied | None = None
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent = 0  # of what it was made with
        self.incoming: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def read(self, limit: int) -> bytes:
        data = await self.incoming.get()
        if isinstance(data, Exception):
            raise data
        return data

    async def write(self, data: bytes) -> None:
        self.heard.put_nowait(bytes(data))

    def write_eof(self) -> None:
        self.heard.put_nowait(b"")

    def close(self) -> None:
        self.closed.set()


class MemoryWay:
    """Leads wherever ``answer`` says."""

    def __init__(self, answer: Callable[[str, int], Any] | None = None) -> None:
        self.answer = answer or (lambda host, port: MemoryTunnel())
        self.admitted: list[tuple[Rule, ...]] = []
        self.withdrawn: list[str] = []
        self.asked: list[tuple[str, int]] = []
        self.authority: str | None = None
        self.early: list[bytes] = []
        self.takes = MOST_EARLY

    async def admit(self, sandbox: str, rules: tuple[Rule, ...], told: Callable[[Closed], None]) -> str | None:
        self.admitted.append(rules)
        return self.authority

    async def withdraw(self, sandbox: str) -> None:
        self.withdrawn.append(sandbox)

    async def connect(self, sandbox: str, host: str, port: int, early: bytes = b"") -> Any:
        self.asked.append((host, port))
        found = self.answer(host, port)
        if isinstance(found, Exception):
            raise found
        if early:
            self.early.append(early)
            found.heard.put_nowait(early[: self.takes])
            found.sent = len(early[: self.takes])
        return found


ENDED: dict[str, Any] = {"exit_code": 0, "signal": None, "dropped": 0, "limit": None, "leftovers": 0}


async def agreeing(asked: Asked) -> None:
    if asked.op == "process.start":
        await asked.event("started", pid=7)
        await asked.finish(**ENDED)
    else:
        await asked.finish(**(DONE if asked.op == "execute" else {}))


async def word(asked: Asked) -> Any:
    """The next thing that the host says on the channel, credit apart."""
    while True:
        message = await asyncio.wait_for(asked.arrived.get(), 5)
        if isinstance(message, (Data, Eof, Event, Fail, Finish)):
            return message


@asynccontextmanager
async def connected(tunnel: MemoryTunnel) -> AsyncIterator[tuple[Life, Asked]]:
    """A client inside whose connection has come about, through ``tunnel``."""
    async with living(agreeing) as (life, cell):
        await life.set_network(RULES, MemoryWay(lambda *_: tunnel))  # type: ignore[arg-type]
        asked = await cell.agent.open("tunnel", host="files.example.com", port=443)
        await word(asked)
        yield life, asked


async def test_names_are_told_inside_and_the_gateway_knows_the_rules_before() -> None:
    told: list[Any] = []
    way = MemoryWay()

    async def script(asked: Asked) -> None:
        told.append((asked.op, asked.params, len(way.admitted)))
        await asked.finish()

    async with living(script) as (life, _):
        await life.set_network(RULES, way)  # type: ignore[arg-type]
        assert told == [("network", {"names": names_of(RULES), "authority": None, "env": {}}, 1)]
    assert names_of(RULES) == [
        {"host": "files.example.com", "ports": [443, 8443]},
        {"host": "*.example.org", "ports": [443]},
    ]
    assert way.withdrawn == [life.id]


async def test_bytes_go_both_ways_and_ends_are_told_both_ways() -> None:
    tunnel = MemoryTunnel()
    async with living(agreeing) as (life, cell):
        await life.set_network(RULES, MemoryWay(lambda host, port: tunnel))  # type: ignore[arg-type]
        asked = await cell.agent.open("tunnel", host="files.example.com", port=443)
        assert await word(asked) == Event("connected", {})
        await asked.data(STDIN, b"a question")
        assert await tunnel.heard.get() == b"a question"
        tunnel.incoming.put_nowait(b"an answer")
        assert await word(asked) == Data(STDOUT, b"an answer")
        await asked.send(Eof(STDIN))
        assert await tunnel.heard.get() == b"", "the client has said all"
        assert not tunnel.closed.is_set(), "the answer may still come"
        tunnel.incoming.put_nowait(b"")
        assert await word(asked) == Eof(STDOUT)
        assert await word(asked) == Finish({})
        await asyncio.wait_for(tunnel.closed.wait(), 5)


async def test_who_has_begun_to_speak_is_heard_with_the_request_and_told_with_the_answer() -> None:
    tunnel = MemoryTunnel()
    way = MemoryWay(lambda *_: tunnel)
    async with living(agreeing) as (life, cell):
        await life.set_network(RULES, way)  # type: ignore[arg-type]
        asked = await cell.agent.open("tunnel", b"a que", b"stion", host="files.example.com", port=443)
        assert await tunnel.heard.get() == b"a question"
        assert way.early == [b"a question"]
        assert asked.arrived.empty(), "nobody waits for a word that there is a connection"
        await asked.data(STDIN, b", more")
        assert await tunnel.heard.get() == b", more"
        tunnel.incoming.put_nowait(b"an answer")
        assert await word(asked) == Event("connected", {})
        assert await word(asked) == Data(STDOUT, b"an answer")


async def test_what_the_gateway_did_not_take_at_once_follows() -> None:
    tunnel = MemoryTunnel()
    way = MemoryWay(lambda *_: tunnel)
    way.takes = 3
    async with living(agreeing) as (life, cell):
        await life.set_network(RULES, way)  # type: ignore[arg-type]
        await cell.agent.open("tunnel", b"a question", b"x" * (MOST_EARLY - 5), host="files.example.com", port=443)
        assert [await tunnel.heard.get() for _ in range(2)] == [b"a q", b"uestion"]
        assert await tunnel.heard.get() == b"x" * (MOST_EARLY - 5), "beyond what may come early, and in its turn"
        assert way.early == [b"a question"]


@pytest.mark.parametrize("ends", [b"", ConnectionResetError("reset by peer")])
async def test_whatever_becomes_of_it_the_word_comes_before_the_end(ends: bytes | Exception) -> None:
    tunnel = MemoryTunnel()
    async with living(agreeing) as (life, cell):
        await life.set_network(RULES, MemoryWay(lambda *_: tunnel))  # type: ignore[arg-type]
        asked = await cell.agent.open("tunnel", b"a question", host="files.example.com", port=443)
        tunnel.incoming.put_nowait(ends)
        assert await word(asked) == Event("connected", {})
        assert isinstance(await word(asked), Fail if ends else Eof)


async def test_what_is_denied_is_told_inside_and_is_in_the_answer_of_the_run() -> None:
    async def script(asked: Asked) -> None:
        if asked.op in ("execute", "process.start"):
            for _ in range(2):
                tried = await asked.agent.open("tunnel", host="other.example.com", port=443)
                assert await word(tried) == Fail("denied", f"{DENIED.reason} {DENIED.remedy}")
        await agreeing(asked)

    async with living(script) as (life, _):
        await life.set_network(RULES, MemoryWay(lambda *_: EgressDenied(DENIED)))  # type: ignore[arg-type]
        done = await life.execute("...")
        assert done.denied == (
            Denial("other.example.com", 443, "not_listed", DENIED.reason, DENIED.remedy, claimed=False, count=2),
        )
        assert "denied=1" in repr(done)
        process = await life.start_process(["true"])
        ended = await process.wait()
        assert [(one.host, one.count) for one in ended.denied] == [("other.example.com", 2)]
        assert "denied=1" in repr(ended)


async def test_an_end_by_the_gateway_is_a_denial_too() -> None:
    tunnel = MemoryTunnel()
    async with connected(tunnel) as (life, asked):
        tunnel.denied = Denied("files.example.com", 443, "sni_mismatch", "the handshake names another host", "")
        tunnel.incoming.put_nowait(ConnectionResetError())
        assert await word(asked) == Fail("denied", "the handshake names another host")
        assert [one.code for one in life._inside.denials.since(0)] == ["sni_mismatch"]


@pytest.mark.parametrize("problem", [EgressUnreachable("no answer in 10 s"), OSError(104, "reset by peer")])
async def test_what_does_not_answer_is_unreachable_and_no_denial(problem: Exception) -> None:
    def answer(host: str, port: int) -> Any:
        if isinstance(problem, EgressUnreachable):
            return problem
        tunnel = MemoryTunnel()
        tunnel.incoming.put_nowait(problem)
        return tunnel

    async with living(agreeing) as (life, cell):
        await life.set_network(RULES, MemoryWay(answer))  # type: ignore[arg-type]
        asked = await cell.agent.open("tunnel", host="files.example.com", port=443)
        said = await word(asked)
        while not isinstance(said, Fail):
            said = await word(asked)
        assert said.code == "unreachable"
        assert life._inside.denials.since(0) == ()


async def test_a_change_is_what_the_policy_says_and_none_takes_everything_away() -> None:
    told: list[Any] = []

    async def script(asked: Asked) -> None:
        told.append(asked.params["names"])
        await asked.finish()

    async with living(script) as (life, _):
        way = MemoryWay()
        await life.set_network((), way)  # type: ignore[arg-type]
        assert (told, way.admitted, life.policy.network) == ([], [], "none"), "nobody is asked where there is nothing"
        for rules in (RULES, RULES[:1], ()):
            await life.set_network(rules, way)  # type: ignore[arg-type]
            assert (way.admitted[-1], told[-1], life.policy.network) == (rules, names_of(rules), rules or "none")
        assert way.withdrawn == [], "what was counted stays counted"
    with pytest.raises(SandboxEnded):
        await life.set_network(RULES, way)  # type: ignore[arg-type]
    assert (len(way.admitted), way.withdrawn) == (3, [life.id])


async def test_the_authority_is_the_one_that_the_way_out_has_now() -> None:
    told: list[Any] = []

    async def script(asked: Asked) -> None:
        told.append(asked.params["authority"])
        await asked.finish()

    async with living(script) as (life, _):
        way = MemoryWay()
        for authority in ("one", "another", None):
            way.authority = authority
            await life.set_network(RULES, way)
    assert told == ["one", "another", None]


async def test_changes_come_one_after_the_other() -> None:
    told: list[Any] = []

    async def script(asked: Asked) -> None:
        told.append(("begins", asked.params["names"]))
        await asyncio.sleep(1)
        told.append(("ends", asked.params["names"]))
        await asked.finish()

    async with living(script) as (life, _):
        way = MemoryWay()
        changes = (RULES, RULES[:1], RULES[2:])
        await asyncio.gather(*(life.set_network(rules, way) for rules in changes))  # type: ignore[arg-type]
        assert told == [(what, names_of(rules)) for rules in changes for what in ("begins", "ends")]
        assert life.policy.network == RULES[2:]


async def test_an_agent_that_takes_no_names_keeps_nobody_waiting() -> None:
    async def script(asked: Asked) -> None:
        if asked.op == "network":
            await asyncio.Event().wait()
        await agreeing(asked)

    async with living(script) as (life, _):
        way = MemoryWay()
        with pytest.raises(HostError, match="did not take its names"):
            await life.set_network(RULES, way)  # type: ignore[arg-type]
        assert (way.admitted, life.policy.network) == ([RULES], RULES), "the gateway has them"
        assert (await life.execute("1")).ok


async def test_what_the_gateway_did_not_take_is_not_what_the_policy_says() -> None:
    way = MemoryWay()

    async def refuse(*_: object) -> None:
        raise HostError("it is gone")

    way.admit = refuse  # type: ignore[method-assign]
    async with living(agreeing) as (life, _):
        with pytest.raises(HostError, match="gone"):
            await life.set_network(RULES, way)  # type: ignore[arg-type]
        assert life.policy.network == "none"
    assert way.withdrawn == [life.id], "whatever it has of it goes"


async def test_a_client_that_goes_takes_its_connection_along() -> None:
    tunnel = MemoryTunnel()
    async with connected(tunnel) as (_, asked):
        await asked.send(Cancel())
        assert isinstance(await word(asked), Fail)
        await asyncio.wait_for(tunnel.closed.wait(), 5)


async def test_a_client_that_goes_at_once_is_answered_too() -> None:
    """Open and Cancel in the same bytes: else the channel would be used up for ever."""
    way = MemoryWay()
    async with living(agreeing) as (life, cell):
        await life.set_network(RULES, way)  # type: ignore[arg-type]
        agent = cell.agent
        asked = []
        for _ in range(3):
            number = agent.connection.open("tunnel", {"host": "files.example.com", "port": 443})
            agent._asked[number] = Asked(agent, number, "tunnel", {})
            agent.connection.send(Cancel(), number)
            asked.append(agent._asked[number])
        await agent.flush()
        assert [type(await word(one)) for one in asked] == [Fail] * 3


@pytest.mark.parametrize("port", [0, -1, 65536, 10**12])
async def test_what_is_no_port_is_none_in_the_denial(port: int) -> None:
    asked_for: list[int] = []

    def answer(host: str, port: int) -> Any:
        asked_for.append(port)
        return EgressDenied(replace(DENIED, port=port))

    async with living(agreeing) as (life, cell):
        await life.set_network(RULES, MemoryWay(answer))  # type: ignore[arg-type]
        assert isinstance(await word(await cell.agent.open("tunnel", host="files.example.com", port=port)), Fail)
        assert asked_for == [0]
        assert [one.port for one in life._inside.denials.since(0)] == [0]


async def test_an_end_of_the_sandbox_ends_its_connections_before_anybody_hears_of_it() -> None:
    tunnel, way = MemoryTunnel(), MemoryWay()
    way.answer = lambda *_: tunnel
    async with living(agreeing) as (life, cell):
        await life.set_network(RULES, way)  # type: ignore[arg-type]
        asked = await cell.agent.open("tunnel", host="files.example.com", port=443)
        await word(asked)
        cell.die(EndReason.CRASHED)
        await life.ended()
        assert tunnel.closed.is_set()
        assert way.withdrawn == [life.id]


async def test_without_a_network_a_tunnel_is_denied_and_nothing_else_happens() -> None:
    async with living(agreeing) as (life, cell):
        asked = await cell.agent.open("tunnel", host="files.example.com", port=443)
        assert await word(asked) == Fail("denied", "this sandbox has no network")
        assert (await life.execute("1")).ok


@pytest.mark.parametrize(
    ("op", "params"),
    [
        ("execute", {"context": "python", "language": "python", "code": "1", "cpu_seconds": 1, "output": 1}),
        ("nonsense", {}),
        ("tunnel", {"host": "a.example.com"}),
        ("tunnel", {"host": "a.example.com", "port": "443"}),
        ("names.refused", {"names": [{"host": "a.example.com"}]}),
        ("names.refused", {"names": ["a.example.com"]}),
        ("names.refused", {"names": [{"host": "a", "count": 1}] * (MAX_CLAIMS + 1)}),
    ],
)
async def test_what_is_not_the_agents_to_ask_for_ends_the_sandbox(op: str, params: dict[str, Any]) -> None:
    async with living(agreeing) as (life, cell):
        await life.set_network(RULES, MemoryWay())  # type: ignore[arg-type]
        await cell.agent.open(op, **params)
        end = await asyncio.wait_for(life.ended(), 5)
        assert end.reason is EndReason.PROTOCOL_VIOLATION


async def test_names_that_the_agent_refused_are_claims() -> None:
    async def script(asked: Asked) -> None:
        if asked.op == "execute":
            names = [{"host": "evil\n.example.com", "count": 3}, {"host": "x" * 999, "count": -1}]
            told = await asked.agent.open("names.refused", names=names)
            assert await word(told) == Finish({})
        await agreeing(asked)

    async with living(script) as (life, _):
        await life.set_network(RULES, MemoryWay())  # type: ignore[arg-type]
        first, second = (await life.execute("...")).denied
        assert (first.host, first.port, first.count, first.claimed) == ("evil\\n.example.com", None, 3, True)
        assert (len(second.host), second.count) == (253, 1)


async def test_connections_are_ended_for_a_snapshot_and_may_be_made_again(tmp_path: Path) -> None:
    tunnels: list[MemoryTunnel] = []
    way = MemoryWay(lambda *_: tunnels.append(MemoryTunnel()) or tunnels[-1])
    async with living(agreeing) as (life, cell):
        await life.set_network(RULES, way)  # type: ignore[arg-type]
        asked = await cell.agent.open("tunnel", host="files.example.com", port=443)
        await word(asked)
        await life.snapshot(tmp_path / "s")
        assert (await word(asked)).code == "unreachable"
        await asyncio.wait_for(tunnels[0].closed.wait(), 5)
        again = await cell.agent.open("tunnel", host="files.example.com", port=443)
        assert await word(again) == Event("connected", {})


async def test_a_tunnel_in_the_bytes_of_the_agents_resume_is_served(tmp_path: Path) -> None:
    opened: list[Asked] = []
    async with living(agreeing) as (life, cell):
        await life.set_network(RULES, MemoryWay())  # type: ignore[arg-type]
        agent, take = cell.agent, cell.agent._take

        async def eager(received: Received) -> None:
            await take(received)
            if isinstance(received.message, Resume):
                number = agent.connection.open("tunnel", {"host": "files.example.com", "port": 443})
                agent._asked[number] = asked = Asked(agent, number, "tunnel", {})
                opened.append(asked)

        agent._take = eager  # type: ignore[method-assign]
        await life.snapshot(tmp_path / "s")
        assert await word(opened[-1]) == Event("connected", {})


async def test_what_a_restored_one_asks_for_at_once_waits_for_its_network(tmp_path: Path) -> None:
    """Code inside goes on before anybody has said where it may connect to."""
    asked_early: list[Asked] = []

    async def script(asked: Asked) -> None:
        if asked.op == "renew":
            for name, params in (
                ("tunnel", {"host": "files.example.com", "port": 443}),
                ("names.refused", {"names": []}),
            ):
                asked_early.append(await asked.agent.open(name, **params))
            await asked.finish(renewed=[], kept=[], unanswered=[])
        else:
            await asked.finish()

    boundary, policy = ScriptedBoundary(script), Policy(network=RULES)
    spec = scripted_spec(policy.limits)
    life = await Life.open(boundary, spec, policy, env={}, prestart=())
    await life.set_network(RULES, MemoryWay())  # type: ignore[arg-type]
    suspended = await life.snapshot(tmp_path / "s")
    copy = await Life.restore(boundary, suspended, spec, policy, keep_seeds=True)
    tunnel, claim = asked_early
    assert await word(claim) == Finish({}), "a claim needs no network"
    assert tunnel.arrived.empty()
    await copy.set_network(RULES, MemoryWay())  # type: ignore[arg-type]
    assert await word(tunnel) == Event("connected", {})
    await asyncio.gather(life.close(), copy.close())


def test_a_run_hears_of_the_last_denials_only() -> None:
    denials, told = Denials(), []
    denials.tell = told.append  # type: ignore[assignment]
    one = Denial("a", 1, "not_listed", "", "")
    denials.add(one)
    mark = denials.mark()
    assert denials.since(mark) == ()
    for number in range(2 * KEPT):
        denials.add(Denial(f"{number}", 1, "not_listed", "", ""))
    assert len(denials.since(mark)) == KEPT
    assert len(told) == 2 * KEPT + 1


# --- learning -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def learning(told: list[Any]) -> AsyncIterator[tuple[Life, MemoryWay, Any]]:
    async def script(asked: Asked) -> None:
        told.append(asked.params)
        await asked.finish()

    way = MemoryWay(lambda host, port: EgressDenied(Denied(host, port, "not_listed", "no rule names it", "ask")))
    async with living(script) as (life, cell):
        await life.set_network("learn", way)  # type: ignore[arg-type]
        yield life, way, cell.agent


async def test_to_learn_no_rule_is_told_to_the_gateway_and_every_name_inside() -> None:
    told: list[Any] = []
    async with learning(told) as (life, way, _):
        assert way.admitted == [()]
        assert told == [{"names": [], "authority": None, "env": {}, "learn": list(LEARN_PORTS)}]
        assert life.policy.network == "learn"


@pytest.mark.parametrize(
    ("said", "began"),
    [
        ((b"\x16\x03\x01\x02",), "tls"),
        ((b"G", b"ET / HTTP/1.1\r\n"), "http"),
        ((bytes([0, 0, 0, 8, 4, 210, 22, 47]),), "postgres"),
        ((b"SSH-2.0-OpenSSH_9.2\r\n",), "other"),
        ((b"hi", None), "other"),
        ((None,), None),
    ],
)
async def test_what_a_connection_looked_like_is_in_its_denial(
    said: tuple[bytes | None, ...], began: str | None
) -> None:
    async with learning([]) as (life, way, agent):
        asked = await agent.open("tunnel", host="a.example.com", port=443)
        for data in said:
            await (asked.send(Eof(STDIN)) if data is None else asked.data(STDIN, data))
        answer = await word(asked)
        assert isinstance(answer, Fail)
        assert answer.code == "denied"
        assert "network = 'learn'" in answer.message
        (denial,) = life._inside.denials.since(0)
        assert (denial.host, denial.port, denial.code, denial.began) == ("a.example.com", 443, "not_listed", began)
        assert way.asked == [("a.example.com", 443)]


async def test_a_client_that_leaves_while_it_is_looked_at_is_forgotten() -> None:
    async with learning([]) as (_, way, agent):
        asked = await agent.open("tunnel", host="a.example.com", port=443)
        await asked.send(Cancel())
        other = await agent.open("tunnel", host="b.example.com", port=443)
        await other.data(STDIN, b"\x16\x03\x01")
        assert isinstance(await word(other), Fail)
        assert way.asked == [("b.example.com", 443)]


async def test_what_was_looked_at_goes_nowhere_when_rules_come_meanwhile() -> None:
    """What the client has said is gone: a server would get the rest of it."""
    async with learning([]) as (life, way, agent):
        asked = await agent.open("tunnel", b"hi", host="files.example.com", port=443)
        await asyncio.sleep(LOOK_SECONDS / 2)
        way.answer = lambda *_: MemoryTunnel()
        await life.set_network(RULES, way)  # type: ignore[arg-type]
        answer = await word(asked)
        assert isinstance(answer, Fail)
        assert answer.code == "unreachable"
        assert (way.asked, life._inside.denials.since(0)) == ([], ())


async def test_nothing_is_taken_from_a_client_before_the_rules_are_gone() -> None:
    tunnel, way, go = MemoryTunnel(), MemoryWay(), asyncio.Event()
    way.answer = lambda *_: tunnel
    admit = way.admit

    async def slowly(*given: Any) -> str | None:
        await go.wait()
        return await admit(*given)

    async with living(agreeing) as (life, cell):
        await life.set_network(RULES, way)  # type: ignore[arg-type]
        way.admit = slowly  # type: ignore[method-assign]
        change = asyncio.ensure_future(life.set_network("learn", way))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        await cell.agent.open("tunnel", b"\x16\x03\x01 and more", host="files.example.com", port=443)
        assert await asyncio.wait_for(tunnel.heard.get(), 5) == b"\x16\x03\x01 and more"
        go.set()
        await change


async def test_it_goes_on_learning_when_rules_could_not_be_given() -> None:
    async with learning([]) as (life, way, agent):

        async def refuse(*_: object) -> None:
            raise PolicyError("there is no such secret")

        way.admit = refuse  # type: ignore[method-assign]
        with pytest.raises(PolicyError):
            await life.set_network(RULES, way)  # type: ignore[arg-type]
        asked = await agent.open("tunnel", b"GET / HTTP/1.1\r\n", host="files.example.com", port=443)
        assert "network = 'learn'" in (await word(asked)).message
        assert [one.began for one in life._inside.denials.since(0)] == ["http"]


async def test_rules_after_learning_are_rules() -> None:
    told: list[Any] = []
    async with learning(told) as (life, way, _):
        await life.set_network(RULES, way)  # type: ignore[arg-type]
        assert way.admitted == [(), RULES]
        assert told[-1] == {"names": names_of(RULES), "authority": None, "env": {}}
        assert life.policy.network == RULES
