"""Image jobs of a worker: checks their sizes and sends the images to the gateway."""
