"""Who you are, what you may do, what you owe. Others call `service.AuthBilling` and nothing else of this package."""
