"""Builds the package as setup.cfg says, with a README that PyPI can show.

Links to files of the repository lead nowhere on PyPI. The description there keeps their text and drops the links.
"""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup

README = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
RELATIVE_LINK = re.compile(r"\[([^]]+)\]\((?!https?:)[^)]+\)")

setup(long_description=RELATIVE_LINK.sub(r"\1", README), long_description_content_type="text/markdown")
