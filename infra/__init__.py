"""How it runs: command line, launcher, containers, configuration of what we stand on."""
