"""The report as one HTML page that needs nothing else: no script, no font, no picture from anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from dayfly.prove.proof import QUESTIONS, Proof, Row

__all__ = ["page"]

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.25rem .6rem;border-bottom:1px solid #ddd}
td.why{color:#555;overflow-wrap:anywhere}.green{color:#060}.red{color:#b00;font-weight:600}.amber{color:#850}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}td,th{border-color:#333}td.why{color:#aaa}.green{color:#7c7}.red{color:#f77}.amber{color:#db6}}
"""


def page(proof: Proof) -> str:
    """All of it. What came out of a sandbox is text here, whatever it says."""
    state = "green" if proof.green else "red"
    whose = f"{_text(proof.target.name)}, " if proof.target else ""
    title = f"dayfly proof of {whose}{proof.at:%Y-%m-%d %H:%M} UTC"
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>',
            f'<h1>{title}: <span class="{state}">{state}</span></h1>',
            f"<p>{len(proof.rows)} probes in {proof.seconds:g} s, the {proof.set} set, {_subject(proof)}</p>",
            "<h2>Four questions</h2><table>",
            *(_question(proof, number) for number in QUESTIONS),
            "</table><h2>What it stands on</h2><table>",
            *(
                f'<tr><td>{_text(one.name)}<td class="{one.state}">{_text(one.value)}<td class="why">{_text(one.remedy)}'
                for one in proof.conditions
            ),
            "</table><h2>Limits</h2><table>",
            *(
                f'<tr><td>{_text(one.name)}<td>{one.value:g}<td>{_text(one.enforcement)}<td class="why">{_text(one.how)}'
                for one in proof.limits
            ),
            "</table>",
            *_by_property(proof),
            "</html>",
        ]
    )


def _subject(proof: Proof) -> str:
    if proof.target is None:
        return f"image {_text(proof.image)}, policy {_text(proof.policy_digest)}"
    one = proof.target
    return _text(f"{one.name} {one.version}, {one.place}: {one.configured} ({one.source})")


def _question(proof: Proof, number: int) -> str:
    answer, rows = proof.answer(number)
    state = "green" if answer == "no" else "red"
    return f'<tr><td>{_text(QUESTIONS[number])}<td class="{state}">{answer}<td class="why">{len(rows)} probes'


def _by_property(proof: Proof) -> Iterator[str]:
    for name in dict.fromkeys(row.property for row in proof.rows):
        yield f"<h2>{_text(name)}</h2><table>"
        yield from (_row(row) for row in proof.rows if row.property == name)
        yield "</table>"


def _row(row: Row) -> str:
    state = "green" if row.green else "red"
    seen = f"; watched by {', '.join(row.seen_by)}" if row.seen_by else ""
    return (
        f'<tr id="{_text(row.id)}"><td>{_text(row.title)}<td class="{state}">{row.verdict.value}<td>{row.basis.value}'
        f'<td class="why">{_text(row.why)}{_text(seen)} <small>({_text(row.id)}; {_text(row.source)})</small>'
    )


def _text(said: str) -> str:
    """Escaped, and without what turns or hides text."""
    return escape("".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in said))
