"""What happened, outside of every sandbox: append-only, chained per sandbox, its heads signed.

``Journal`` writes, ``Reader`` reads, ``audit`` finds whatever was changed, removed, reordered or cut off since.
"""

from dayfly.journal.audit import Problem, audit
from dayfly.journal.entry import ENDED, OPENED, SERVER, Entry, Head
from dayfly.journal.export import dump_heads, load_heads
from dayfly.journal.signing import Signer, Verifier
from dayfly.journal.store import Reader, SignedHead, Stored
from dayfly.journal.writer import Journal

__all__ = [
    "ENDED",
    "OPENED",
    "SERVER",
    "Entry",
    "Head",
    "Journal",
    "Problem",
    "Reader",
    "SignedHead",
    "Signer",
    "Stored",
    "Verifier",
    "audit",
    "dump_heads",
    "load_heads",
]
