"""``dayfly prove``: shows that the denied paths are denied, today, on this machine, from inside a live sandbox.

A probe is a value (``catalogue``); it is carried out inside (``inside``) in a sandbox as production has it; the judge (``verdict``) is outside and
believes the host's own eyes (``bait``, ``world``, ``posture``, ``floods``); the whole is a dated report (``proof``).
"""

from dayfly.prove.catalogue import ALL, chosen
from dayfly.prove.probe import Expected, Place, Probe, Property, Severity
from dayfly.prove.proof import QUESTIONS, Condition, Proof, Row, Subject
from dayfly.prove.session import Ground, prove
from dayfly.prove.verdict import Basis, Verdict
from dayfly.prove.world import RULES, World

__all__ = [
    "ALL",
    "QUESTIONS",
    "RULES",
    "Basis",
    "Condition",
    "Expected",
    "Ground",
    "Place",
    "Probe",
    "Proof",
    "Property",
    "Row",
    "Severity",
    "Subject",
    "Verdict",
    "World",
    "chosen",
    "prove",
]
