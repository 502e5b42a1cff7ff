"""The report: its model, how it is built from facts and findings, and its writers."""
