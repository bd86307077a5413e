"""Makes a checkout ready to run; standard library only."""
