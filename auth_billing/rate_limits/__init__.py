"""Rate limits that all gateways share: limits requests and tokens over time, and concurrent requests, per subject."""
