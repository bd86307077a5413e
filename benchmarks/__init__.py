"""How fast it is: seeded workloads, one definition a measure, results as files with the command that made them."""
