"""Programs that run a peer engine in the peer's environment; they import only the standard library and that engine."""
