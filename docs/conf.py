"""How these pages become a site: `make docs` writes it to build/site, to be opened from disk."""

import ast
import csv
import re
import shutil
from pathlib import Path

import bntricks
from bntricks.report.explorer.page import write_explorer
from bntricks.report.explorer.scenes import scenes
from bntricks.report.page.html import Section, page_html, table_html
from bntricks.report.records import load_records
from bntricks.report.tables.table import Cell, Table

DOCS = Path(__file__).parent
API = DOCS / "api"
"""Pages that are written anew each time."""
PIECES = "bntricks"

project = "bntricks"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
exclude_patterns = ["results/*", "demo/*"]
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

EXPLORER = re.compile(r"!\[[^]]*\]\(figures/explorer\.svg\)")
LIVE = (
    '<iframe class="explorer" src="explorer.html" title="Same weights, other statistics"></iframe>'
    '\n\n<p><a href="explorer.html">The explorer on a page of its own</a> has accuracy by task, '
    "and the commands for runs of your own.</p>"
)
"""What the site has in place of the picture."""
CLAIMS = "claims.html"
OWN_PAGES = ("explorer", "claims", "index")
"""Which the theme does not write."""
CLAIMED = ("verdict", "claim", "difference", "low", "high", "seeds", "scale", "paper", "study")
LISTED = re.compile(r"^- \[.*?\]\((.*?)\.md\)", re.MULTILINE)


def prepare(app, page, source):
    """The lists of the first page are the site's navigation; `api` is made from the package."""
    if page == root_doc:
        # A folder cannot be opened like a page. Its files can, from the pages that link to them.
        text = source[0].replace("[examples/](../examples)", "`examples/`")
        parts = re.split(r"^(To .*):$", text, flags=re.MULTILINE)
        text += "".join(map(navigation, parts[1::2], parts[2::2]))
        source[0] = EXPLORER.sub(LIVE, text)
    elif page == "results":
        studies = "\n".join(f"evidence/{path.stem}" for path in DOCS.glob("evidence/*.md"))
        link = f' <a href="{CLAIMS}">As a table to filter and to sort</a>.'
        source[0] = source[0].replace("<!-- claims -->", link)
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n\n{studies}\n```\n"
    elif page == "api":
        source[0] = source[0].replace("<!-- modules -->", modules())


def navigation(title, listed):
    pages = "\n".join(LISTED.findall(listed))
    return f"\n\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n"


def write_modules(app):
    """Write a page for each folder of the package: its public names, and its files."""
    shutil.rmtree(API, ignore_errors=True)
    API.mkdir()
    for name, (names, files) in api().items():
        shown = f"bntricks.{name}" if name != PIECES else name
        described = "\n".join(directive(names[own], own) for own in sorted(names, key=str.lower))
        text = f"# {shown}\n\n{described}\n\n## The source, file by file\n{''.join(house(files))}"
        (API / f"{name}.md").write_text(text, encoding="utf-8")


def modules():
    """List the public names of each of these pages, in a table and in the navigation."""
    rows, pages = "| module | public names |\n|---|---|\n", api()
    for name, (names, _) in pages.items():
        shown = (
            ", ".join(f"[{own}](#{names[own]}.{own})" for own in sorted(names, key=str.lower))
            or "–"
        )
        rows += f"| [{name}](api/{name}.md) | {shown} |\n"
    listed = "\n".join(f"api/{name}" for name in pages)
    return f"{rows}\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


def api():
    """Public names, with their modules, and described files, by the folder they are in."""
    source = Path(bntricks.__file__).parent
    pages = {PIECES: ({}, [])}
    for path, sentence in source_files(source):
        pages.setdefault(folder_of(path), ({}, []))[1].append((path, sentence))
    for name, module in bntricks._modules().items():
        path = Path(*module.split(".")[1:])
        pages[path.parts[0] if (source / path.parts[0]).is_dir() else PIECES][0][name] = module
    return pages


def folder_of(path):
    return path.parts[0] if len(path.parts) > 1 else PIECES


def directive(module, name):
    value = getattr(bntricks, name)
    kind = "class" if isinstance(value, type) else "function" if callable(value) else "data"
    return f"```{{eval-rst}}\n.. auto{kind}:: {module}.{name}\n```\n"


def house(files):
    """A table for each folder, of what its files say they are."""
    folder = None
    for path, sentence in files:
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


def explorer(app, failure):
    """The page of the explorer, from the demo's records and those of the studies."""
    records = load_records([DOCS / "demo", DOCS / "results"])
    write_explorer(scenes(records), Path(app.outdir, "explorer.html"))


def claims(app, failure):
    """Every claim in a table to filter and to sort."""
    with (DOCS / "evidence" / "claims.csv").open(encoding="utf-8", newline="") as file:
        rows = tuple(tuple(cell(row[name]) for name in CLAIMED) for row in csv.DictReader(file))
    table = Table("Every claim of every study", (*map(str.capitalize, CLAIMED),), rows)
    shown = table_html(table, "claims-table", picks=["Verdict"], cards=True)
    text = page_html(table.title, "", [Section("claims", "Claims", shown)], None, charts=False)
    Path(app.outdir, CLAIMS).write_text(text, encoding="utf-8")


def cell(text):
    if re.fullmatch(r"-?\d+(\.\d+)?", text) is None:
        return Cell(text)
    return Cell(text if text.isdigit() else f"{float(text):.1f}", float(text))


ACCESSIBLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer': '<aside aria-label="This page" class="toc-drawer',
    '<th class="head"><p></p></th>': "<td></td>",
    '<div class="table-wrapper ': '<div tabindex="0" class="table-wrapper ',
    '</noscript>\n\n<div id="search': '</noscript>\n<h1>Search</h1>\n<div id="search',
}
"""What a reader's program or keyboard needs, and the theme leaves out."""


def make_accessible(app, failure):
    """Name landmarks and levels, and let the keyboard scroll wide tables."""
    for page in (path for path in Path(app.outdir).rglob("*.html") if path.stem not in OWN_PAGES):
        text = page.read_text(encoding="utf-8")
        for theirs, ours in ACCESSIBLE.items():
            text = text.replace(theirs, ours)
        page.write_text(text, encoding="utf-8")


def open_with_the_first_page(app, failure):
    """A server and a reader look for index.html."""
    refresh = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">'
    Path(app.outdir, "index.html").write_text(f"<!doctype html>{refresh}", encoding="utf-8")


def setup(app):
    app.connect("builder-inited", write_modules)
    app.connect("source-read", prepare)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", no_type, priority=400)  # before napoleon
    for last in (make_accessible, explorer, claims, open_with_the_first_page):
        app.connect("build-finished", last)
