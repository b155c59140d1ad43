"""The comparison as a page of the docs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dayfly.prove import Basis, Proof, Row, Subject, Verdict

KERNELS = {"dayfly": "its own (gVisor)", "gvisor-wheel": "its own (gVisor)", "e2b": "its own (microVM)"}
"""Which kernel the code talks to; the host's for all others."""

HEAD = """# Comparison

The probes of [`dayfly prove`](prove.md) that need only "run this program, give me its output", against sandboxes that can be had on a plain machine. Made by `make compare`
on {date}; kernel {kernel}. dayfly is judged by the same way as all others: a command line that takes a program.

**How to read it.** All ran as one ordinary user of a disposable machine of namespaces: its loopback has servers that see who comes, its only link leads to where every packet is heard, its
home has files that look like credentials. *Seen*: what the judge saw, or would have seen. *Claimed*: what the probe's own program says; against its sandbox it is believed. A sandbox
with a kernel of its own answers many attempts itself: where that says "reached, claimed", it is that kernel that was reached, and not this machine's. A bare subprocess is there as the
control: what it does not reach, the machine itself denies to an ordinary user, and no sandbox has shown anything by denying it.

**What it does not show.** Only attempts that change nothing where no wall is: {count} of them, no floods, no attack on a kernel's weaknesses, nothing about two sandboxes beside each other,
about names, proxies or an API. A count is no measure: one attempt that is reached may matter more than ten others.
"""

NOT_TRIED = """- Not tried: firejail, which the distribution installs as a setuid program, and setuid programs have no effect in a box; sandboxes that are microVMs (microsandbox, boxlite, exec-sandbox), which need a KVM
  that works; services (Modal, Daytona, Vercel, Cloudflare), which need an account: `--target command` is for them."""

OWN = """
## What their makers say

- bubblewrap is a toolkit and no ready-made sandbox: its arguments decide how much it protects, and whoever writes them defines the security model (its SECURITY.md). It caps no memory, no
  processes and no disk; process 1 inside is its own, and keeps the variables that it was started with. A seccomp filter is the caller's to bring.
- gVisor is there to keep code from getting out to the host; what stays within one sandbox, being root in it among that, counts for little, and exhaustion where nobody has set a limit is no issue of
  its own (gvisor.dev/security). Memory is limited by the host's kernel, if whoever starts it says so; the wheel sets none.
- smolagents' local interpreter is by its makers' own words never completely safe; for isolation they name Docker and E2B (their tutorial on secure code execution).
- Python's subprocess promises nothing.

## What dayfly's own column says

It ran as `dayfly run` of an ordinary user, so its caps were watched by the host and not enforced by a kernel. Its code is a cell of a kernel inside: the open descriptor (`boundary.descriptors`) is that kernel's private way to the agent, over which code can forge its own results and nobody else's
([design.md](design.md), section 6). dayfly's own proof, with everything that only its own sandboxes can be asked, is `dayfly prove`.
"""


@dataclass(frozen=True)
class Absent:
    """A target without a column, and why. ``proof``: of one that ran, and could be asked nothing."""

    name: str
    why: str
    proof: Proof | None = None


def page(proofs: Sequence[Proof], absent: Sequence[Absent]) -> str:
    first = proofs[0]
    kernel = next(one.value for one in first.conditions if one.name == "kernel")
    date = max(one.at for one in proofs).strftime("%Y-%m-%d")
    count = sum(row.property != "useful" for row in first.rows)
    parts = [
        HEAD.format(date=date, kernel=kernel, count=count),
        *_by_property(proofs),
        *_set_up(proofs),
        *_absent(absent),
    ]
    parts += [OWN, *_failures(proofs)]
    return "\n".join(line.rstrip() for part in parts for line in (part.splitlines() or [""])) + "\n"


def subject(proof: Proof) -> Subject:
    assert proof.target is not None  # only proofs of targets are compared
    return proof.target


def _header(first: str, proofs: Sequence[Proof]) -> Iterator[str]:
    yield f"| {first} | {' | '.join(subject(one).name for one in proofs)} |"
    yield f"|---{'|---' * len(proofs)}|"


def _by_property(proofs: Sequence[Proof]) -> Iterator[str]:
    yield from ("", "## By property", "")
    yield "How many attempts were denied (of them seen), reached (of them seen), and how many showed nothing. For *useful*, which must work: how many did."
    yield ""
    yield from _header("property", proofs)
    names = dict.fromkeys(row.property for row in proofs[0].rows)
    for name in names:
        cells = [_cell([row for row in one.rows if row.property == name]) for one in proofs]
        yield f"| {name} | {' | '.join(cells)} |"


def _cell(rows: Sequence[Row]) -> str:
    if rows[0].expected == "allowed":
        return f"{sum(row.green for row in rows)} of {len(rows)} work"
    said = [_counted(rows, verdict) for verdict in (Verdict.DENIED, Verdict.REACHED)]
    mute = sum(row.verdict is Verdict.INCONCLUSIVE for row in rows)
    return ", ".join([*filter(None, said), *([f"{mute} inconclusive"] if mute else [])])


def _counted(rows: Sequence[Row], verdict: Verdict) -> str:
    found = [row for row in rows if row.verdict is verdict]
    seen = sum(row.basis is Basis.SEEN for row in found)
    return f"{len(found)} {verdict.value}" + (f" ({seen} seen)" if seen else "") if found else ""


def _set_up(proofs: Sequence[Proof]) -> Iterator[str]:
    yield from ("", "## How each was set up", "")
    yield "| target | version, as it says | date | whose kernel | set up as | by |"
    yield "|---|---|---|---|---|---|"
    for one in proofs:
        what = subject(one)
        kernel = KERNELS.get(what.name, "the machine's")
        cells = [what.name, what.version, f"{one.at:%Y-%m-%d}", kernel, f"`{what.configured}`", what.source]
        yield f"| {' | '.join(map(_text, cells))} |"


def _absent(absent: Sequence[Absent]) -> Iterator[str]:
    yield from ("", "## Without a column", "")
    for one in absent:
        ran = (
            f"ran (version {subject(one.proof).version}), and could be asked nothing: "
            if one.proof
            else "not run here: "
        )
        yield f"- **{one.name}**: {ran}{_text(one.why)}"
    yield NOT_TRIED


def _failures(proofs: Sequence[Proof]) -> Iterator[str]:
    """Every attempt that somebody did not deny, or that did not work."""
    yield from ("", "## What was not as it should be", "", "Empty: as it should be.", "")
    yield from _header("attempt", proofs)
    rows = [{row.id: row for row in one.rows} for one in proofs]
    for name, row in rows[0].items():
        found = [one.get(name) for one in rows]
        if not all(one is not None and one.green for one in found):
            yield f"| {_text(row.title)} (`{name}`) | {' | '.join(map(_verdict, found))} |"


def _verdict(row: Row | None) -> str:
    if row is None:
        return "not asked"
    if row.green:
        return ""
    if row.expected == "allowed":
        return "does not work"
    return row.verdict.value if row.verdict is Verdict.INCONCLUSIVE else f"{row.verdict.value}, {row.basis.value}"


def _text(said: str) -> str:
    """In a cell of a table, whatever it says."""
    return "".join(one if one.isprintable() else "?" for one in said).replace("|", "\\|").replace("<", "&lt;")
