"""Job lifecycle in the gateway: building, credit hold, publishing, recovery and settlement."""
