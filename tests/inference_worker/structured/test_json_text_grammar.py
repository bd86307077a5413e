"""A Lark grammar of a text matches the same texts inside a JSON string, with their characters escaped."""

from __future__ import annotations

import json

import pytest

from inference_worker.errors import GrammarRejected
from inference_worker.structured.compiler import GrammarCompiler
from inference_worker.structured.json_text_grammar import expanded, json_text
from inference_worker.structured.vocabulary import Vocabulary
from router.messages import Grammar, GrammarKind

END = 256
COMPILER = GrammarCompiler(
    Vocabulary([*(bytes([byte]) for byte in range(256)), b"<end>"], frozenset({END})), END + 1, [END]
)
ARITHMETIC = r"""
// OpenAI's example
start: expr
expr: term (SP ADD SP term)* -> add
    | term
?term: factor (SP MUL SP factor)* -> mul
    | factor
factor: INT
SP: " "
ADD: "+"   # plus
MUL: "*"
%import common.INT
"""


def matches(definition: str, text: str) -> bool:
    """Whether the grammar matches a text; of JSON's escapes the shortest are tried."""
    source = "\n".join(["start: QUOTE text QUOTE", 'QUOTE: "\\""', json_text("text", definition), 'NAME: "other"'])
    matcher = COMPILER.matcher(Grammar(kind=GrammarKind.LARK, source=source))
    matcher.accept([*json.dumps(text, ensure_ascii=False).encode(), END])
    return matcher.error is None


@pytest.mark.parametrize(
    ("definition", "good", "bad"),
    [
        (ARITHMETIC, ["4 + 4 * 2", "12"], ["4 +", "4+4", ""]),
        ('start: "say \\"x\\"\\n\\\\ / Łódź😀"', ['say "x"\n\\ / Łódź😀'], ["say x"]),
        (r'start: "\x41\u0142\t\x07"', ["Ał\t\x07"], ["A"]),
        ('start: "a\\n"i', ["a\n", "A\n"], ["a", "a\\N"]),
        ('start: "a".."c" "\\t".."\\n"', ["a\t", "c\n"], ["d\t", "a\r"]),
        (r"start: /[^\"a]+/", ["\n\\\x1fbŁ", "x"], ['"', "a", ""]),
        (r"start: /[\"\\a-c]/", ['"', "\\", "b"], ["d", "\n"]),
        (r"start: /[^\d\s]\w\W\S/", ["aŁ-x", '"a"\\'], ["1a-x", " a-x"]),
        (r"start: /\D\s/", ["\n\n", "a\t", '" '], ["1 ", "aa"]),
        (r"start: /./ /(?s:.)/", ['"\n', "a\x00"], ["\na"]),
        (r"start: /./s", ["\n"], [""]),
        (r"start: /(?:ab|c\/d){2,3}x?/", ["abc/d", "c/dc/dabx"], ["ab", "ababababx"]),
        (r"start: /a[bc]/i", ["aB", "Ac"], ["ad"]),
        (r"start: /a b/x", ["ab"], ["a b"]),
        ('start: A ["-"] A~2 (B|"q")\nA: "a"\nB: "b"', ["aaab", "a-aaq"], ["aab", "aaa"]),
        ('start: A{2,3}\nA: B "!"\nB: /x|y/', ["x!y!"], ["x!"]),
        ('start: A+\nA: "a"\n%ignore " "\n%ignore /\\n/', ["aa", "a a", "a\na"], ["a-a"]),
        (
            "start: ESCAPED_STRING NL\n%import common (ESCAPED_STRING)\n%import common.NEWLINE -> NL",
            ['"a\\"b"\n'],
            ['"'],
        ),
        ("start: NUMBER WS CNAME\n%import common (NUMBER, WS, CNAME)", ["1.5e3 \n\tx_1"], ["1.5e3x", "x 1"]),
        ('start: "<" NAME ">"\nNAME: /[a-z]+/', ["<ab>"], ["<other", "<A>"]),
        ('start: a\na: "(" a ")" | "x"', ["((x))"], ["((x)"]),
    ],
)
def test_the_same_texts_match_as_without_json(definition: str, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not matches(definition, text)] == []
    assert [text for text in bad if matches(definition, text)] == []


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("start: /a(?=b)/", "assert in regular"),
        ("start: /^a$/", "at in regular"),
        (r"start: /(a)\1/", "groupref in regular"),
        ("start: /a+?/", "lazy"),
        (r"start: /\p{L}/", "is invalid: bad escape"),
        ("start: /[[:alpha:]]/", "is invalid: Possible nested set"),
        ("start: /(/", "is invalid"),
        ("start: /a/z", "flag 'z'"),
        ('start: "\\x4"', "invalid escape"),
        ('start: "ab".."c"', "single characters"),
        ('start: A\nA.2: "a"', "'.2:'"),
        ("%declare A\nstart: A", "'%declare'"),
        ('start: %json {"type": "string"}', "'%json'"),
        ("start: <[1]>", "'<[1]>'"),
        ("%import python.NAME\nstart: NAME", "'%import'"),
        ("%import common.C_COMMENT\nstart: C_COMMENT", "no terminal 'C_COMMENT'"),
        ('start: "a\n"', "'\"a'"),
        ("start: ~/a/", "'~/a/'"),
        ("start: A }", "'}'"),
        ("x: /a/", "start"),
        ("start: missing", "missing"),
        (f"start: /{'(?:' * 3000}a{')' * 3000}/", ""),
    ],
)
def test_what_is_not_translated_is_rejected_by_name(definition: str, reason: str) -> None:
    with pytest.raises(GrammarRejected) as rejected:
        matches(definition, "a")
    assert reason in str(rejected.value)


def test_other_lines_stay_as_they_are() -> None:
    source = 'start: "a" text\n%ignore " "'
    assert expanded(source) == source
