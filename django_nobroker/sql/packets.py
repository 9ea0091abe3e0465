"""How much fits into one statement of MySQL, whose server refuses what is over its packet size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from .moves import Move

Item = TypeVar("Item")

# Bytes of a statement that every server takes: the smallest max_allowed_packet in use is 1 MiB.
SMALL = 960 * 1024


def escaped_size(text: str) -> int:
    """Return the bytes that a payload takes inside a statement."""
    return len(text) + text.count('"') + text.count("\\") + text.count("'")


def packets(texts: Sequence[str], limit: int, most: int = 1000) -> Iterator[list[str]]:
    """Cut payloads into batches that fit into `limit` bytes, or hold a single payload."""
    # A row has other columns too.
    return parts(texts, [escaped_size(text) + 512 for text in texts], limit, most)


def parts(
    items: Sequence[Item], sizes: Sequence[int], limit: int, most: int = 1000
) -> Iterator[list[Item]]:
    """Cut items of these sizes into parts of at most `limit`, or of a single item."""
    part: list[Item] = []
    total = 0
    for item, size in zip(items, sizes, strict=True):
        if part and (total + size > limit or len(part) == most):
            yield part
            part, total = [], 0
        part.append(item)
        total += size
    if part:
        yield part


def row_size(move: Move, row: Any) -> int:
    """Return about how many bytes the values of a row take in a statement, as part of JSON."""
    texts = (row[name] for name, kind in move.columns.items() if kind == "text")
    return 128 + sum(
        4 * len(text) if len(text) < 1000 else escaped_size(json.dumps(text, ensure_ascii=False))
        for text in texts
        if text
    )
