"""Search for an answer with test-time compute, as a state machine without I/O: paths, scores, votes, choice."""
