"""Links lead somewhere: files exist, and so do the headings that fragments name."""

from django.test import SimpleTestCase

from .pages import DOCS, ROOT, page, pages


class LinkTests(SimpleTestCase):
    def test_links_within_the_repository_resolve(self):
        for source in pages():
            for link in source.links:
                if "://" in link:
                    continue
                with self.subTest(page=source, link=link):
                    self.resolve(source, link)

    def resolve(self, source, link):
        path, _, fragment = link.partition("#")
        target = (source.path.parent / path).resolve() if path else source.path
        self.assertTrue(target.exists(), f"{target} is missing")
        self.assertTrue(target.is_relative_to(ROOT))
        if fragment:
            self.assertIn(fragment, page(str(target.relative_to(ROOT))).anchors)

    def test_every_page_is_reached_from_the_index(self):
        index = page("docs/README.md")
        linked = {(DOCS / link.partition("#")[0]).resolve() for link in index.links}
        for path in sorted(DOCS.rglob("*.md")):
            if path != index.path:
                self.assertIn(path, linked)

    def test_pages_are_of_a_size_to_read(self):
        for one in pages():
            self.assertLessEqual(one.text.count("\n"), 250, one)
