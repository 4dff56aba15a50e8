"""How these pages become a site: `make docs` writes it to build/site, to be opened from disk."""

import re
from pathlib import Path

import bntricks

project = "bntricks"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
exclude_patterns = ["results/*"]
myst_heading_anchors = 4
default_role = "code"  # what single backticks mean in our docstrings
add_module_names = False
napoleon_google_docstring = False
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
html_theme = "furo"
html_title = "bntricks"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
html_show_search_summary = False  # a browser may not read other pages from disk

LISTED = re.compile(r"^- \[.*?\]\((.*?)\.md\)", re.MULTILINE)


def prepare(app, page, source):
    """The lists of the first page are the site's navigation; `api` is made from the package."""
    if page == root_doc:
        # A folder cannot be opened like a page. Its files can, from the pages that link to them.
        text = source[0].replace("[examples/](../examples)", "`examples/`")
        parts = re.split(r"^(To .*):$", text, flags=re.MULTILINE)
        source[0] = text + "".join(map(navigation, parts[1::2], parts[2::2]))
    elif page == "api":
        source[0] += "".join(public(module, names) for module, names in bntricks._NAMES.items())


def navigation(title, listed):
    pages = "\n".join(LISTED.findall(listed))
    return f"\n\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n"


def public(module, names):
    described = "\n".join(directive(module, name) for name in names.split())
    return f"\n## {module}\n\n```{{eval-rst}}\n{described}```\n"


def directive(module, name):
    value = getattr(bntricks, name)
    kind = "class" if isinstance(value, type) else "function" if callable(value) else "data"
    return f".. auto{kind}:: bntricks.{module}.{name}\n"


def skip(app, what, name, value, skipped, options):
    """What scikit-learn adds to every estimator is described there."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def no_type(app, what, name, value, options, lines):
    """napoleon takes what stands before a colon in the first line of an attribute for its type, so
    that line is an empty comment."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]


def open_with_the_first_page(app, failure):
    """A server and a reader look for index.html."""
    refresh = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">'
    Path(app.outdir, "index.html").write_text(f"<!doctype html>{refresh}", encoding="utf-8")


def setup(app):
    app.connect("source-read", prepare)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", no_type, priority=400)  # before napoleon
    app.connect("build-finished", open_with_the_first_page)
