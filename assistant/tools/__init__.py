"""Tools of the assistant: what a question can be sent to instead of a model alone."""
