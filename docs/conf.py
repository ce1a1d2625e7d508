"""How the site is built: `make docs` writes it to build/site."""

from __future__ import annotations

import unknot

project = "unknot"
author = "the authors of unknot"
release = version = unknot.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["pictures", "results/*.json"]

myst_heading_anchors = 4  # links to headings as GitHub makes them

default_role = "code"  # docstrings have names in single backticks
autodoc_default_options = {"members": True}
autodoc_class_signature = "mixed"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = True
python_maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "unknot"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"

BELOW = {"methods/README": "*", "results/README": "*", "api/index": "*"}
"""Pages that list the others of their folder: what is below them in the menu."""


def put_below(app: object, page: str, source: list[str]) -> None:
    """A menu of the folder, which Markdown itself has no word for."""
    if page in BELOW:
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:glob:\n\n{BELOW[page]}\n```\n"


def setup(app) -> None:  # type: ignore[no-untyped-def]
    app.connect("source-read", put_below)
