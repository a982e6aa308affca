"""Settings of the site: Sphinx builds it from the Markdown of the repository, as it is. See `make site`.

The root of the sources is the root of the repository, so that links between pages are the same here and in the
repository. A link to a file that is no page becomes a download, one to a folder or to a source file its name.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import glue  # noqa: E402

project = "glue"
author = "the authors of glue"
project_copyright = "MIT license"
release = version = glue.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = ["docs/**", "examples/*.ipynb", "ARCHITECTURE.md", "CHANGELOG.md"]
exclude_patterns = [".venv", "build", "dist", "site", "glue", "spark", "tests", "benchmarks", "extras", ".*"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
default_role = "code"
highlight_language = "text"
# Names in signatures that two classes have are no links, and blocks of datagrams have no colours; links of pages are
# checked all the same.
suppress_warnings = ["ref.python", "misc.highlighting_failure"]

html_theme = "furo"
html_title = f"glue {release}"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_static_path: list[str] = []

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

# The notebook runs as the site is built, on loopback, and an error in it is an error of the site.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300  # seconds for a cell, many times what one takes
nb_execution_show_tb = True
nb_merge_streams = True
os.environ.setdefault("GLUE_INTERFACE", "lo0" if sys.platform == "darwin" else "lo")
os.environ.setdefault("GLUE_NETWORK_ID", str(os.getpid() % 65_535 + 1))

autodoc_default_options = {"members": True, "inherited-members": "BaseException,tuple,object", "undoc-members": False}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_display_short_literal_types = True
add_module_names = False
toc_object_entries = False


FIELD = re.compile(r"^(?P<names>[a-z_]+(?:, [a-z_]+)*): (?P<text>.*)$")
LINK = re.compile(r"\[(?P<text>[^]]+)\]\((?P<path>[^):#]+)\)")


def as_definitions(app: Any, what: str, name: str, object: Any, options: Any, lines: list[str]) -> None:
    """Write the paragraphs of a docstring that explain parameters, `name: meaning`, as a list of definitions."""
    written: list[str] = []
    is_open = False
    for line in lines:
        found = FIELD.match(line)
        if found and (is_open or not written or not written[-1].strip()):
            is_open = True
            written += [f"`{found['names']}`", f"    {found['text']}"]
            continue
        if line and not line.startswith(" "):
            written += [""] if is_open else []
            is_open = False
        written.append(line)
    lines[:] = written


def without_links_to_folders(app: Any, name: str, source: list[str]) -> None:
    """Keep only the text of a link to a folder of the repository, which the site does not have."""
    page = ROOT / f"{name}.md"

    def replaced(found: re.Match[str]) -> str:
        return found["text"] if (page.parent / found["path"]).is_dir() else found[0]

    source[0] = LINK.sub(replaced, source[0])


def with_a_first_page(app: Any, failure: Exception | None) -> None:
    """Lead from the root of the site to its first page."""
    if failure is None:
        target = f"{root_doc}.html"
        (Path(app.outdir) / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={target}">\n')


def setup(app: Any) -> None:
    """Register what this site does beyond Sphinx."""
    app.connect("autodoc-process-docstring", as_definitions)
    app.connect("source-read", without_links_to_folders)
    app.connect("build-finished", with_a_first_page)
