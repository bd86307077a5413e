"""The peers: each in an environment of its own under `HEADRACE_HOME/peers/`, measured beside ours in one session."""
