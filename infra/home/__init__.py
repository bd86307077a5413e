"""An installation's folder: settings, secrets and records of its processes."""
