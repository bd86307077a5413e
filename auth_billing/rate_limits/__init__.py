"""Rate limits that all gateways share: requests and tokens over time, and concurrent requests."""
