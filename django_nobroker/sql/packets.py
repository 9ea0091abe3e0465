"""How much fits into one statement of MySQL, whose server refuses what is over its packet size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# Bytes of a statement that every server takes: the smallest max_allowed_packet in use is 1 MiB.
SMALL = 960 * 1024


def escaped_size(text: str) -> int:
    """Return the bytes that a payload takes inside a statement."""
    return len(text) + text.count('"') + text.count("\\") + text.count("'")


def packets(texts: Sequence[str], limit: int, most: int = 1000) -> Iterator[list[str]]:
    """Cut payloads into batches that fit into `limit` bytes, or hold a single payload."""
    batch: list[str] = []
    size = 0
    for text in texts:
        # A row has other columns too.
        needed = escaped_size(text) + 512
        if batch and (size + needed > limit or len(batch) == most):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += needed
    if batch:
        yield batch
