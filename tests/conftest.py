"""Before kibitz is imported: a place for compiled code that belongs to the tests of this clone.

It survives from run to run, or everything would be compiled anew each time. What is kept is named by
what it was made from, so that nothing in it can be out of date. `platformdirs` follows XDG_CACHE_HOME
on Linux, in later versions also on macOS; elsewhere the tests share the folder of the user. Workers,
and programs that the tests start, inherit it.
"""

import os
from pathlib import Path

os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parents[1] / ".cache")
