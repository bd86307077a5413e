"""Fault-injection tests of the whole platform as processes: scheduled faults, recording clients, a checker."""
