"""`python3 -m infra.install`: set up this checkout."""

from infra.install.steps import main

raise SystemExit(main())
