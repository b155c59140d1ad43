"""The protocol between the host and the agent: a machine without I/O that both sides run.

Law of this package: standard library only, Python 3.9+, and no import that is slow inside gVisor (``dataclasses`` and
``typing`` cost 20-40 ms of a cold start there, measured), because the agent imports it before it can answer.
"""
