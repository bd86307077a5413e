"""`python -m infra.cli`: the `headrace` command."""

from infra.cli.main import main

main()
