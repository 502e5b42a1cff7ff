"""The live probe: the real model code of a tree, on N ranks, told to capture as the tree tells it, and looked at.

``protocol`` is what the two sides say to each other, ``rank`` is what runs in a rank. Neither may import more than the
standard library, PyTorch and the scanned tree: they run in an environment that does not have flowcheck's dependencies.
"""
