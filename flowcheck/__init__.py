"""flowcheck: proves that hidden states are wired right in an SGLang source tree, without running it."""

__version__ = "0.1.0"
