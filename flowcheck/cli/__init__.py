"""The command line: typer commands, one module each. Heavy libraries are imported by the command that needs them."""

from flowcheck.cli.application import app, main

__all__ = ["app", "main"]
