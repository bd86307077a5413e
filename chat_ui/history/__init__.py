"""Conversations that belong to people: what they are, how they are found again, and the ports to where they are."""
