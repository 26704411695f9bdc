"""`python -m sokovan`."""

from sokovan.cli.main import main

main()
