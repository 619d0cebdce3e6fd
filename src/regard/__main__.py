"""`python -m regard`: the command line."""

from regard.cli.main import main

raise SystemExit(main())
