"""Checks: facts in, findings out. No parsing, no printing."""
