"""What a shape costs: exact counts, their expectation, budgets, and the published networks."""
