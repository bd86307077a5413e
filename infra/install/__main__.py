"""Runs the set-up of this checkout for `python3 -m infra.install`."""

from infra.install.installer import main

raise SystemExit(main())
