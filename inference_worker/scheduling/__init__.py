"""Planning: plain Python on numbers. Decides which tokens are computed in a step; never imports torch."""
