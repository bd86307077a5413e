"""Programs that run in a peer's environment; they must import only the standard library and that peer."""
