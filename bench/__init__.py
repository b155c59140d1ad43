"""Speed, side by side in one run: dayfly, a bare ``runsc run``, the ``gvisor`` wheel, an unsandboxed ipykernel.

``make bench`` (or ``python -m bench``) writes ``bench/results/<date>.json`` and the table in ``docs/benchmarks.md``.
Nothing here is asserted: machines differ and drift. Contenders take turns, round by round, so that a drift hits all.
"""
