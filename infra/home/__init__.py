"""Home directory of an installation: reads and writes settings, secrets and the records of its processes."""
