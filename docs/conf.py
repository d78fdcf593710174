"""How Sphinx builds the site, of what tools/site_builder.py gathers. docs/decisions/site.md says why so."""

from pathlib import Path

GATHERED = Path(__file__).parents[1]

project = "fastopen"
author = copyright = "the fastopen authors"  # noqa: A001  # Sphinx's name
html_title = "fastopen"
root_doc = "docs/README"
extensions = ["autoapi.extension", "myst_parser"]

# Links name headings as they do on code hosts.
myst_heading_anchors = 6
# rustdoc's pages are copied into the site once Sphinx has built the others, and it cannot know them.
myst_url_schemes = {"http": None, "https": None, "mailto": None, "rustdoc": "{{path}}"}
# What is between single backticks in docstrings is code, as in Markdown.
default_role = "code"

html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
html_static_path = [str(GATHERED / "docs/site.css")]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}

# Read and not imported: the site's environment has none of the dependencies, nor what these modules import.
autoapi_dirs = [str(GATHERED / "python/fastopen")]
autoapi_generate_api_docs = False
autoapi_python_class_content = "both"
autodoc_typehints = "signature"
suppress_warnings = ["autoapi.python_import_resolution"]
