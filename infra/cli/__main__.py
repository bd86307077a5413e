"""Runs the `headrace` command for `python -m infra.cli`."""

from infra.cli.main import main

main()
