"""docs/requirements.md and docs/coverage.md say what the tests' markers say."""

from __future__ import annotations

from tests.coverage import COVERAGE, REQUIREMENTS, documents, items


def test_every_item_of_the_papers_is_listed() -> None:
    assert len(items()) == 39 + 36 + 46 + 24 + 12


def test_coverage_documents_are_fresh() -> None:
    requirements, coverage = documents()
    assert REQUIREMENTS.read_text() == requirements, "run `make coverage`"
    assert COVERAGE.read_text() == coverage, "run `make coverage`"
