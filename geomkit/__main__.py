"""`python -m geomkit` is the command `geomkit`."""

from geomkit.cli import main

main()
