"""How these pages become a site: `make docs` writes it to build/site, to be opened from disk."""

import ast
import re
from itertools import groupby
from operator import itemgetter
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
        by_module = groupby(bntricks._modules().items(), itemgetter(1))
        names = (public(module, [name for name, _ in pairs]) for module, pairs in by_module)
        files = house(Path(bntricks.__file__).parent)
        source[0] = source[0].replace("<!-- names -->", "".join(names))
        source[0] = source[0].replace("<!-- files -->", "".join(files))


def navigation(title, listed):
    pages = "\n".join(LISTED.findall(listed))
    return f"\n\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n"


def public(module, names):
    described = "\n".join(directive(module, name) for name in names)
    return f"\n### {module.removeprefix('bntricks.')}\n\n```{{eval-rst}}\n{described}```\n"


def directive(module, name):
    value = getattr(bntricks, name)
    kind = "class" if isinstance(value, type) else "function" if callable(value) else "data"
    return f".. auto{kind}:: {module}.{name}\n"


def house(source):
    """A table for each folder, of what its files say they are."""
    folder = None
    for path, sentence in source_files(source):
        if path.parent != folder:
            folder = path.parent
            yield f"\n### bntricks/{'' if folder == Path() else f'{folder.as_posix()}/'}\n\n"
        if path.name == "__init__.py":
            yield f"{sentence}\n\n| file | what it is |\n|---|---|\n"
        else:
            yield f"| `{path.name}` | {sentence.replace('|', chr(92) + '|')} |\n"


def source_files(source):
    """Every file of the package, folder by folder, with the first sentence of its docstring."""
    packages = sorted(path.parent for path in source.rglob("__init__.py"))
    for package in packages:
        for path in sorted(package.glob("*.py"), key=lambda path: (path.name[0] != "_", path.name)):
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            paragraph = " ".join(text.partition("\n\n")[0].split())
            yield path.relative_to(source), re.split(r"(?<=[.:?])\s+(?=[A-Z])", paragraph)[0]


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
