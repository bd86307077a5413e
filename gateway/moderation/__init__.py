"""Moderation: classifies texts by a model or the operator's rules, and checks the prompts and answers of projects."""
