"""Set-up of a checkout. Must use the standard library only."""
