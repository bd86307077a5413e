"""Image workers."""
