"""Where a tree comes from: gives the files of an SGLang package as bytes with a content digest.

A source is a checkout, a package folder, a site-packages folder (editable installs are followed), a wheel or sdist read
in place, a release fetched by name through pip into the user cache, or a revision of a git repository. Nothing that is
read is ever installed, imported or executed.
"""

from __future__ import annotations

from flowcheck.source.cache import cache_root
from flowcheck.source.errors import SourceError, SourceWarning
from flowcheck.source.opening import open_source
from flowcheck.source.tree import Tree

__all__ = ["SourceError", "SourceWarning", "Tree", "cache_root", "open_source"]
