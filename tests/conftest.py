from __future__ import annotations

import os

from hypothesis import settings

# Cores are shared where these tests run: an example may be slow without being wrong. In CI, examples are the same ones
# at each run, so that a red run can be repeated.
settings.register_profile("shared", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "shared")
