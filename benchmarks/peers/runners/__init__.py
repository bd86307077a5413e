"""Programs that run inside a peer's own environment: standard library and that peer, nothing of ours."""
