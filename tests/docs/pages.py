"""The pages of the documentation, taken apart: fenced blocks, headings, links, tables.

A block's language is the first word after the fence; more words are marks of its own. A Python
block that begins with a comment like `# shop/jobs.py` is that file's content.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#{1,4}) (.+)$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FILE = re.compile(r"# ((?:\w+/)*\w+)\.py$")
ROW = re.compile(r"^\| *`([^`]+)`", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its marks, its text, and the line that it begins on."""

    language: str
    marks: tuple[str, ...]
    text: str
    line: int

    @property
    def file(self):
        """The dotted name of the module that the block is the content of, or None."""
        found = FILE.match(self.text.split("\n", 1)[0])
        return found and found[1].replace("/", ".")


class Page:
    """One Markdown file."""

    def __init__(self, path):
        self.path = path
        self.name = str(path.relative_to(ROOT))
        self.text = path.read_text(encoding="utf-8")
        self.prose = FENCE.sub("", self.text)

    def __repr__(self):
        return self.name

    @property
    def blocks(self):
        """All fenced blocks, in their order."""
        found = []
        for match in FENCE.finditer(self.text):
            language, *marks = match[2].split() or [""]
            text = "\n".join(line.removeprefix(match[1]) for line in match[3].split("\n"))
            line = self.text.count("\n", 0, match.start()) + 2
            found.append(Block(language, tuple(marks), text, line))
        return found

    def of(self, *languages):
        """Return the blocks in these languages."""
        return [block for block in self.blocks if block.language in languages]

    @property
    def headings(self):
        """The texts of the headings."""
        return [match[2] for match in HEADING.finditer(self.prose)]

    @property
    def anchors(self):
        """The fragments by which the headings can be linked to, as GitHub makes them."""
        return {
            re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in self.headings
        }

    @property
    def links(self):
        """The targets of the links outside fenced blocks."""
        return LINK.findall(self.prose)

    @property
    def first_cells(self):
        """The code in the first cell of every table row."""
        return ROW.findall(self.prose)

    def section(self, heading):
        """Return the prose under a heading, up to the next one of its rank or a higher one."""
        found = re.search(rf"^(#+) {re.escape(heading)}$", self.prose, re.MULTILINE)
        if found is None:
            raise LookupError(f"{self.name} has no heading {heading!r}.")
        rest = self.prose[found.end() :]
        end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
        return rest[: end.start()] if end else rest


@cache
def page(name):
    """Return the page with this path, from the root of the repository."""
    return Page(ROOT / name)


@cache
def pages():
    """Return README and every page of the documentation."""
    paths = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
    return [page(str(path.relative_to(ROOT))) for path in paths]
