"""How Sphinx builds these pages: `make docs`."""

from importlib.metadata import version as version_of

project = "kibitz"
author = "The kibitz developers"
release = version_of("kibitz")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "kibitz"
exclude_patterns = ["_build"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# compiled functions hide their docstrings from autodoc's inspection
autodoc_mock_imports: list[str] = []
suppress_warnings = ["myst.xref_missing"]  # links to files of the repository outside of docs/
