"""How often, how much and how many at once: limits that all gateways share."""
