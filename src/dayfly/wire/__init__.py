"""The protocol between the host and the agent: a machine without I/O that both sides run.

Law of this package: standard library only, Python 3.9+, and no import that is slow inside gVisor, because the agent imports
it before it can answer. Measured there: ``dataclasses`` and ``typing`` 20-40 ms, ``json`` 17-22, ``collections`` 4. So
the C modules are imported that these are built on.
"""
