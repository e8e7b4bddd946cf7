"""Give the tests of this clone their own cache of compiled code, before kibitz is imported.

The cache persists between test runs. It cannot be stale, because its file names are hashes of code.
`platformdirs` uses XDG_CACHE_HOME on Linux and, in later versions, on macOS; elsewhere the tests
share the user's folder. Processes that the tests start inherit the variable.
"""

import os
from pathlib import Path

os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parents[1] / ".cache")
