"""Runs INSIDE: what probes attempt. Standard library and Python 3.9 only; nothing of the host is shipped with it.

An attempt is a function of its arguments that returns how many ways it tried and what it reached. What it says is a claim.
"""
