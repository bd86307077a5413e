"""Opens the account store for commands and processes on this machine."""
