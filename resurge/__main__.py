"""`python -m resurge`: the `resurge` command, where its script is not on the path."""

from resurge.cli import main

main()
