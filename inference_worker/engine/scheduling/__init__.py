"""Scheduler of the engine: decides which tokens a step computes, and manages KV blocks. Must not import torch."""
