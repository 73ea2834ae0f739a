from pathlib import Path

import pytest

from wattpack.docs import PAGES, SECTIONS, with_section

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name](), "run ./dev docs"


@pytest.mark.parametrize("name", SECTIONS)
def test_a_generated_section_matches_the_code(name: str) -> None:
    page, section = (ROOT / name).read_text(encoding="utf-8"), SECTIONS[name]()
    assert section in page, "run ./dev docs"
    assert with_section(page, section) == page
