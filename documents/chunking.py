"""Divides a document into passages that follow its structure, each within a number of tokens.

Sections, paragraphs, rows of tables and lines of code stay whole where they fit. Passages of one section overlap.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import msgspec

from documents.content import Block, Document, Passage

CountTokens = Callable[[str], int]
"""Returns the number of tokens of a text, without special tokens: by the embedder's tokenizer, or an estimate."""

_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+\s+|[。！？]+\s*|\n+")
"""Each run of signs is tried once, from its beginning, so that a long one without a space takes linear time."""
_LINE_END = re.compile(r"\n+")
_TABLE_HEADER = re.compile(r".*\n\|(?: --- \|)+(?:\n|\Z)")
_SECTION_SHARE = 4
"""A heading begins a passage if the one before it has at least this part of the tokens that a passage may have."""
_PIECE_SHARE = 4
"""Longer texts than a passage may be are divided into pieces of this part of it, at most."""

_SHORT_PIECE = 32
"""Characters below which neighbouring sentences, rows or lines are one piece: each piece costs time and memory."""

_LONGEST_TOKEN = 32
"""Characters of a token; longer texts are divided without counting their tokens."""


class ChunkingOptions(msgspec.Struct, frozen=True):
    """Sizes of passages in tokens, named as OpenAI's static chunking."""

    max_chunk_size_tokens: int
    chunk_overlap_tokens: int
    """Tokens at the end of a passage that the next one repeats, at most."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a document that passages keep whole: a sentence, a row, a line or a heading."""

    start: int
    end: int
    """Offset of the next piece: white space after the piece belongs to it."""
    tokens: int
    block: int
    heading: bool
    leads: bool
    """Whether the piece belongs to the one after it, as a heading or the header of a table."""
    path: tuple[str, ...]
    """Headings above the piece; of a heading, with the heading itself."""
    page: int | None
    header: str
    """Header of the piece's table, which a passage that begins with the piece repeats."""


def divide(document: Document, count: CountTokens, options: ChunkingOptions) -> list[Passage]:
    """Return the passages of a document in reading order; each has text that the ones before it lack.

    Counting the tokens of a large document takes seconds: call it in a thread.
    """
    return list(_Division(document, count, options).passages())


class _Division:
    def __init__(self, document: Document, count: CountTokens, options: ChunkingOptions) -> None:
        self._document = document
        self._text = document.text
        self._count = count
        self._most = options.max_chunk_size_tokens
        self._overlap = options.chunk_overlap_tokens
        self._short = min(_SHORT_PIECE, self._most // _PIECE_SHARE)
        self._pieces = list(self._all_pieces())

    def passages(self) -> Iterator[Passage]:
        """Yield the passages. `begin` is the first piece of one, `new` the first that the one before it lacks."""
        begin = new = 0
        while new < len(self._pieces):
            begin, end, passage = self._fitting(begin, new, self._end(begin, new))
            yield passage
            begin = self._overlap_begin(begin, end)
            new = end

    # --- Pieces ---------------------------------------------------------------------------------

    def _all_pieces(self) -> Iterator[_Piece]:
        path: list[tuple[int, str]] = []
        placed = list(self._document.placed_blocks())
        for index, (start, block) in enumerate(placed):
            if block.kind == "heading":
                level = block.level or 1
                path = [each for each in path if each[0] < level]
                path.append((level, block.text))
            until = placed[index + 1][0] if index + 1 < len(placed) else start + len(block.text)
            headings = tuple(text for _, text in path)
            header = _TABLE_HEADER.match(block.text) if block.kind == "table" else None
            repeated = self._repeated(header[0]) if header is not None else ""
            ends = self._without_blank_pieces(start, [*self._ends(block, start), until])
            for piece_start, piece_end in zip([start, *ends[:-1]], ends, strict=True):
                in_header = header is not None and piece_start < start + header.end()
                yield _Piece(
                    piece_start,
                    piece_end,
                    self._tokens(piece_start, piece_end),
                    index,
                    block.kind == "heading",
                    block.kind == "heading" or in_header,
                    headings,
                    block.page,
                    "" if in_header else repeated,
                )

    def _without_blank_pieces(self, start: int, ends: list[int]) -> list[int]:
        """Return the ends of pieces from `start` on, each with a visible character; white space ends the one before."""
        kept: list[int] = []
        for end in ends:
            blank = self._text[kept[-1] if kept else start : end].isspace()
            if kept and blank:
                kept[-1] = end
            elif not blank or end == ends[-1]:
                kept.append(end)
        return kept

    def _repeated(self, header: str) -> str:
        """Return the header of a table as it is repeated: empty if it would take most of a passage."""
        header = header.rstrip("\n") + "\n"
        return header if self._count(header) * 2 <= self._most else ""

    def _ends(self, block: Block, start: int) -> Iterator[int]:
        """Yield the offsets at which a block may be divided, in ascending order, without its own end."""
        last = 0
        for boundary in self._boundaries(block):
            if boundary > last:
                yield from self._divided(start + last, start + boundary)
                if boundary < len(block.text):
                    yield start + boundary
                last = boundary

    def _boundaries(self, block: Block) -> Iterator[int]:
        """Yield the ends of the sentences, rows or lines of a block, and of the block; several short ones are one."""
        header = _TABLE_HEADER.match(block.text) if block.kind == "table" else None
        header_end = 0 if header is None else header.end()
        pattern = _SENTENCE_END if block.kind == "paragraph" else _LINE_END
        found = pattern.finditer(block.text, max(header_end - 1, 0)) if block.kind != "heading" else iter(())
        last = previous = 0
        for end in chain((each.end() for each in found), [len(block.text)]):
            if last < header_end or end - last >= self._short:
                if last < previous and end - previous >= self._short:
                    yield previous
                yield end
                last = end
            previous = end
        yield len(block.text)

    def _divided(self, start: int, end: int) -> Iterator[int]:
        """Yield offsets that divide a text which is longer than a passage may be; none if it fits."""
        if self._tokens(start, end) > self._most:
            yield from self._halves(start, end, max(self._most // _PIECE_SHARE, 1))

    def _halves(self, start: int, end: int, most: int) -> Iterator[int]:
        """Yield offsets that divide a text into pieces of at most `most` tokens, at spaces if there are any."""
        if end - start < 2 or (end - start <= most * _LONGEST_TOKEN and self._tokens(start, end) <= most):
            return
        middle = self._word_boundary(start, end)
        yield from self._halves(start, middle, most)
        yield middle
        yield from self._halves(middle, end, most)

    def _word_boundary(self, start: int, end: int) -> int:
        """Return the beginning of the word that is nearest the middle, else the middle between two characters."""
        middle = (start + end) // 2
        before, after = self._text.rfind(" ", start + 1, middle), self._text.find(" ", middle, end - 1)
        found = [each + 1 for each in (before, after) if each > 0]
        if found:
            return min(found, key=lambda each: abs(each - middle))
        while middle > start + 1 and unicodedata.combining(self._text[middle]):
            middle -= 1
        return middle

    def _tokens(self, start: int, end: int) -> int:
        return self._count(self._text[start:end])

    # --- Passages -------------------------------------------------------------------------------

    def _end(self, begin: int, new: int) -> int:
        """Return the end of the passage from `begin`: where it is full, or its section ends."""
        pieces = self._pieces
        tokens = sum(each.tokens for each in pieces[begin : new + 1]) + self._header_tokens(begin)
        own = pieces[new].tokens
        end = new + 1
        while end < len(pieces):
            piece = pieces[end]
            if piece.heading and not pieces[end - 1].heading and own * _SECTION_SHARE >= self._most:
                return end
            if tokens + piece.tokens > self._most:
                return self._good_end(begin, new, end)
            tokens += piece.tokens
            own += piece.tokens
            end += 1
        return end

    def _good_end(self, begin: int, new: int, end: int) -> int:
        """Return where a full passage ends: not after a heading or a table's header.

        It ends between two blocks if its new text then fills half of the space beside the overlap.
        """
        pieces = self._pieces
        while end > new + 1 and pieces[end - 1].leads:
            end -= 1
        space = self._most - sum(each.tokens for each in pieces[begin:new])
        tokens = sum(each.tokens for each in pieces[new:end])
        boundary = end
        while boundary > new + 1 and tokens * 2 >= space:
            if pieces[boundary].block != pieces[boundary - 1].block and not pieces[boundary - 1].leads:
                return boundary
            boundary -= 1
            tokens -= pieces[boundary].tokens
        return end

    def _overlap_begin(self, begin: int, end: int) -> int:
        """Return the first piece of the passage after one of the pieces from `begin` to `end`.

        A passage that begins with a heading has no overlap. Others have none of the section before, and leave space
        for the next piece.
        """
        pieces = self._pieces
        if end >= len(pieces) or pieces[end].heading:
            return end
        most = min(self._overlap, self._most - pieces[end].tokens)
        first, tokens = end, 0
        while first - 1 > begin and tokens + pieces[first - 1].tokens + self._header_tokens(first - 1) <= most:
            first -= 1
            tokens += pieces[first].tokens
            if pieces[first].heading:
                break
        return first

    def _header_tokens(self, piece: int) -> int:
        header = self._pieces[piece].header
        return self._count(header) if header else 0

    def _fitting(self, begin: int, new: int, end: int) -> tuple[int, int, Passage]:
        """Return a passage of the pieces from `begin` to `end`, or of fewer if together they have more tokens."""
        while True:
            passage = self._passage(begin, end)
            if passage.tokens <= self._most:
                return begin, end, passage
            if end > new + 1:
                end -= 1
            elif begin < new:
                begin += 1
            else:
                return begin, end, passage

    def _passage(self, begin: int, end: int) -> Passage:
        pieces = self._pieces[begin:end]
        start = pieces[0].start
        text = self._text[start : pieces[-1].end].rstrip()
        whole = pieces[0].header + text
        return Passage(whole, pieces[0].page, _common_path(pieces), start, start + len(text), self._count(whole))


def _common_path(pieces: list[_Piece]) -> tuple[str, ...]:
    """Return the headings that all text of the pieces is under."""
    paths = [piece.path for piece in pieces if not piece.heading] or [piece.path for piece in pieces]
    common = paths[0]
    for path in paths[1:]:
        length = 0
        while length < min(len(common), len(path)) and common[length] == path[length]:
            length += 1
        common = common[:length]
    return common
