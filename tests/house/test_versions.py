"""The site of every release: which tags are releases, and the page that lists them."""

from __future__ import annotations

from docs.versions import index, releases


def test_releases_are_tags_of_three_numbers_the_newest_first():
    tags = ["v0.9.0", "v0.10.0", "nightly", "v1.0", "v1.2.3-rc1", "v0.10.2"]
    assert releases(tags) == ["v0.10.2", "v0.10.0", "v0.9.0"]


def test_the_page_leads_to_each():
    page = index(["latest", "v0.1.0"])
    assert 'href="latest/index.html"' in page and 'href="v0.1.0/index.html"' in page
