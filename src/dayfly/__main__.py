"""``python -m dayfly``: the command line."""

from dayfly.cli import main

if __name__ == "__main__":
    main()
