"""Peer engines, each in its own environment under `HEADRACE_HOME/peers/`, measured in turns with ours."""
