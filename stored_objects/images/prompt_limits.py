"""Constants that limit the images of one prompt (number, bytes, pixels), for API requests and chat questions."""

from __future__ import annotations

MAX_IMAGES = 16
"""Images of a prompt."""
MAX_TOTAL_BYTES = 8 * 2**20
"""Maximum bytes of all image files of a prompt: a job of this size, in base64, is within RabbitMQ's own limit."""
MAX_PIXELS = 16 * 2**20
"""Maximum pixels of one image."""
MAX_TOTAL_PIXELS = 64 * 2**20
"""Maximum pixels of all images of a prompt."""
