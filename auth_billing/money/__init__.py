"""Money: holds before work, what each job cost in the end, the ledger, credit, budgets and what is told of them."""
