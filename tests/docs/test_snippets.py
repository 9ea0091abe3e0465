"""Every Python snippet runs, and prints what the page says that it prints."""

from django.contrib.auth import get_user_model
from django.test import SimpleTestCase, TestCase

from .pages import pages
from .play import SHOWN_ONLY, Play


class SnippetTests(TestCase):
    """One test for each page, made below."""

    def play(self, page):
        # The shop that the pages speak of has a customer.
        get_user_model().objects.create_user("ann", "ann@example.org")
        with Play(page, self) as play:
            play.run()


def method(page):
    def test(self):
        self.play(page)

    return test


for _page in pages():
    if _page.of("python", "pycon"):
        _name = _page.name.removesuffix(".md").replace("/", "_").replace("-", "_").lower()
        setattr(SnippetTests, f"test_{_name}", method(_page))


class FenceTests(SimpleTestCase):
    LANGUAGES = {"python", "pycon", "console", "sql", "ini", "text", "mermaid"}

    def test_every_block_says_what_it_is(self):
        for page in pages():
            for block in page.blocks:
                self.assertIn(block.language, self.LANGUAGES, f"{page}, line {block.line}")

    def test_few_blocks_are_not_run(self):
        blocks = [block for page in pages() for block in page.of("python", "pycon")]
        shown = [block for block in blocks if SHOWN_ONLY in block.marks]
        self.assertGreater(len(blocks), 20)
        self.assertLessEqual(len(shown), 3)

    def test_every_fence_is_closed(self):
        for page in pages():
            self.assertNotIn("```", page.prose, page)
