"""Sphinx configuration of these pages: run `make docs`."""

import sys
import tomllib
import urllib.request
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import mathml  # noqa: E402
import performance_chart  # noqa: E402

GENERATED = HERE / "_generated"
PROJECT = tomllib.loads(
    (HERE.parent / "pyproject.toml").read_text(encoding="utf-8")
)
URLS = PROJECT["project"]["urls"]
LIBRARIES = {
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "pandas": "https://pandas.pydata.org/docs/",
    "xarray": "https://docs.xarray.dev/en/stable/",
    "dask": "https://docs.dask.org/en/stable/",
}
INVENTORY_SECONDS = 3  # timeout of a download


def find_inventories() -> dict[str, tuple[str, str]]:
    """Return the intersphinx mapping of the libraries whose inventories are available.

    Inventories are downloaded once and stored. Without a network the pages are built
    without links to other projects.
    """
    folder = GENERATED / "inventories"
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for name, url in LIBRARIES.items():
        target = folder / f"{name}.inv"
        try:
            if not target.exists():
                with urllib.request.urlopen(
                    f"{url}objects.inv", timeout=INVENTORY_SECONDS
                ) as answer:
                    target.write_bytes(answer.read())
        except OSError:
            break
        mapping[name] = (url, str(target))
    return mapping


project = "kibitz"
author = "The kibitz developers"
release = installed_version("kibitz")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "docstrings",
    "mathml",
    "run",
]
intersphinx_mapping = find_inventories()
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
html_theme = "furo"
html_title = "kibitz"
mathml.write_stylesheet(GENERATED / "math.css")
html_static_path = ["_static", "_generated/math.css"]
html_css_files = ["math.css", "kibitz.css"]
performance_chart.write(HERE / "_generated" / "performance.svg")
html_show_sphinx = html_show_copyright = False
html_theme_options = {
    "source_repository": URLS["Source"],
    "source_branch": "main",
    "source_directory": "docs/",
}
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "links.html",
        "sidebar/scroll-end.html",
    ]
}
html_context = {
    "links": {
        "Repository": URLS["Source"],
        "Issues": URLS["Issues"],
        "The paper (arXiv)": "https://arxiv.org/abs/1807.03558",
    }
}
copybutton_selector = (
    "div.highlight-python div.highlight pre, div.highlight-sh div.highlight pre"
)
exclude_patterns = ["_build", "_generated"]
smartquotes_action = "qe"  # quotes and ellipses; `--gap` must keep its hyphens
default_role = (
    "py:obj"  # show `name` as code, with a link if the name is documented
)
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
suppress_warnings = [
    "myst.xref_missing"  # links to HTML anchors, and to files outside of docs/
]
