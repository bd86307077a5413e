"""`python3 -m infra.install`: set up this checkout."""

from infra.install.installer import main

raise SystemExit(main())
