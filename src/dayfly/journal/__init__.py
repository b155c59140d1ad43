"""What happened, outside of every sandbox: append-only, chained per sandbox, its heads signed.

``Journal`` writes, ``Reader`` reads, ``audit`` finds whatever was changed, removed, reordered or cut off since.
"""

from dayfly.journal.audit import Problem, audit
from dayfly.journal.entry import SERVER, Entry, Head
from dayfly.journal.signing import Signer, Verifier
from dayfly.journal.store import Reader
from dayfly.journal.writer import Journal

__all__ = ["SERVER", "Entry", "Head", "Journal", "Problem", "Reader", "Signer", "Verifier", "audit"]
