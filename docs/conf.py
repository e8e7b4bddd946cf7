"""How Sphinx builds these pages: `make docs`."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import mathml  # noqa: E402
import performance_chart  # noqa: E402

project = "kibitz"
author = "The kibitz developers"
release = version_of("kibitz")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docstrings",
    "mathml",
    "run",
]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
html_theme = "furo"
html_title = "kibitz"
mathml.write_sheet(HERE / "_made" / "math.css")
html_static_path = ["_static", "_made/math.css"]
html_css_files = ["math.css", "kibitz.css"]
performance_chart.write(HERE / "_generated" / "performance.svg")
html_show_sphinx = html_show_copyright = False
exclude_patterns = ["_build", "_made"]
smartquotes_action = "qe"  # quotes and ellipses; `--gap` in a help text is no dash
default_role = "py:obj"  # `name` in a docstring is code, and a link if there is one
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
suppress_warnings = [
    "myst.xref_missing"  # links to files of the repository outside of docs/
]
