"""The generated pages say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generate import FOLDER, pages


@pytest.mark.parametrize("name", sorted(pages()))
def test_generated_pages_are_fresh(name: str) -> None:
    assert (FOLDER / name).read_text() == pages()[name], "run `python -m docs.generate`"


def test_links_between_papers_lead_somewhere() -> None:
    root = FOLDER.parent
    for page in [*root.glob("*.md"), *root.glob("docs/**/*.md")]:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.relative_to(root)} links to {link}"


def test_error_codes_are_unique() -> None:
    codes = re.findall(r"^\| `([A-Z_]+)` \|", Path(FOLDER / "errors.md").read_text(), re.MULTILINE)
    assert len(codes) == len(set(codes)) > 30
