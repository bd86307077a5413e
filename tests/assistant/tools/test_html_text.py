"""Visible text of HTML documents."""

from __future__ import annotations

import pytest

from assistant.tools.html_text import title_and_text

PAGE = """<!DOCTYPE html><html lang="pl"><head><title> Żółw
 &amp; Zając </title><style>p { color: red }</style><script>alert("head")</script></head>
<body><nav><a href="/">Menu</a></nav><header><h1>Bajka</h1></header>
<p>Pierwszy   akapit<br>w dwóch wierszach, <b>ważny</b>&nbsp;i&#32;długi.</p>
<ul><li>jeden<li>dwa</ul><script>document.write("<p>skrypt</p>")</script><noscript>bez skryptów</noscript>
<form><input value="x"><button>Wyślij</button></form><table><tr><td>a<td>b</table>
<!-- komentarz --><footer>stopka</footer></body></html>"""


def test_the_visible_text_is_read() -> None:
    title, text = title_and_text(PAGE)
    assert title == "Żółw & Zając"
    assert text == "Bajka\nPierwszy akapit\nw dwóch wierszach, ważny i długi.\njeden\ndwa\na\nb"


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>SECRET</script>",
        "<SCRIPT type='text/plain'>SECRET</SCRIPT >",
        "<style>SECRET</style>",
        "<template><p>SECRET</p></template>",
        "<svg><title>SECRET</title><text>SECRET</text></svg>",
        "<iframe>SECRET</iframe>",
        "<textarea>SECRET</textarea>",
        "<p hidden>SECRET</p>",
        "<div aria-hidden=true><p>SECRET<p>SECRET</div>",
        "<span style='DISPLAY : none'>SECRET</span>",
        '<span style="color:red; visibility:hidden">SECRET</span>',
        "<span style='font-size:0'>SECRET</span>",
        "<span style='opacity: 0.0;'>SECRET</span>",
        "<p hidden>SECRET<p>",
        "<!-- SECRET -->",
        "<![CDATA[SECRET]]>",
        "<img alt=SECRET title=SECRET src='javascript:SECRET'>",
        "<script>SECRET",
    ],
)
def test_scripts_and_hidden_elements_are_left_out(hidden: str) -> None:
    text = title_and_text(f"<body><p>before</p>{hidden}<p>after</p>")[1]
    assert "SECRET" not in text
    assert text.startswith("before")
    assert text.endswith("after") or hidden == "<script>SECRET"


def test_the_main_element_is_preferred_if_it_is_long_enough() -> None:
    long = "A sentence of the article. " * 20
    assert title_and_text(f"<body><p>advert</p><article>{long}</article><p>more</p>")[1] == long.strip()
    assert title_and_text("<body><p>advert</p><main>short</main>")[1] == "advert\nshort"


@pytest.mark.parametrize("document", ["", "   ", "<", "<>", "&", "&#x110000;", "</p></p>", "<p", "\0", "<html><body>"])
def test_malformed_documents(document: str) -> None:
    assert len(title_and_text(document)[1]) < 10


def test_deep_documents() -> None:
    assert title_and_text("<div>" * 100_000 + "deep" + "</div>" * 100_000)[1] == "deep"


def test_unclosed_tags_do_not_hide_the_rest() -> None:
    assert title_and_text("<p>a</b></i><b>b<p>c</div>d")[1] == "ab\ncd"
