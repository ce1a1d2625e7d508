"""What pages have people install is enough for what they have them type."""

import re
import tomllib

import pytest

from pages import ROOT


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_who_keeps_a_run_has_installed_what_it_needs(page):
    text = (ROOT / page).read_text()
    extras = set(re.search(r'pip install -e "\.\[(.*?)\]"', text)[1].split(","))
    assert re.search(r"^\$ unknot run .*--out", text, flags=re.MULTILINE)
    assert {"cli", "store"} <= extras
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras <= known.keys()
