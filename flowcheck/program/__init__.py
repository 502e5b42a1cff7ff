"""The program: modules, the names in them, and which code may matter to a question."""
