"""Runs by a Python that has somebody's library: a program on standard input goes into their sandbox, what it prints comes out."""
