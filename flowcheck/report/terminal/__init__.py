"""The report for a terminal: lines of rich text, laid out for a width. Imports the report's model and nothing else."""

from flowcheck.report.terminal.page import page

__all__ = ["page"]
