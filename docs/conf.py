"""How the site is built: ``make docs``. Pages written by hand are Markdown beside this file; those that come
from the code (operators, primitives, settings, errors, how it works) are written by ``pages`` into ``made/``
at the start of each build. Knows Sphinx; the packages know nothing of it."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import pages  # noqa: E402

import tensorlang  # noqa: E402

pages.write(HERE / "made")

project = "tensorlang"
author = copyright = "the tensorlang contributors"
version = release = tensorlang.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx.ext.intersphinx", "myst_nb"]
exclude_patterns = ["_build", "jupyter_execute", "**.ipynb_checkpoints"]
nitpicky = False

html_theme = "furo"
html_title = f"tensorlang {release}"
html_theme_options = {"source_directory": "docs/"}
html_copy_source = False
html_static_path, html_css_files = ["static"], ["site.css"]

# The notebooks are shown as they were committed; the tests execute them.
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing"]  # README's and CONTRIBUTING's links lead to files of the tree

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False}
# Defaults as they are written: a target or a dtype prints as a page of numbers
autodoc_preserve_defaults = True
