"""API keys: how they look, what they allow, who may make them, and how everybody hears when one ends."""
