"""Account services of an installation, on its store, for commands and processes on this machine."""
