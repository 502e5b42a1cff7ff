"""The abstract interpreter: Python and nothing of SGLang."""
