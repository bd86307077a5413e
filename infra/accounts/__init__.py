"""Creates the account services (keys, credit, sign-in) over an installation's store, for its processes and commands."""
