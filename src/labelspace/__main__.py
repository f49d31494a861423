"""`python -m labelspace` is `labelspace`."""

from labelspace.cli import main

main()
