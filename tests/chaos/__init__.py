"""Chaos: the whole platform as processes, faults by a schedule, clients that write down what they saw, a checker."""
