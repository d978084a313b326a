"""Reads a report's HTML strictly: every tag closed in its order, nothing that runs, nothing from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_VOID = frozenset({"meta", "br", "line", "rect", "path"})
_TAGS = _VOID | {
    *("html", "head", "title", "style", "body", "main", "header", "section"),
    *("h1", "h2", "h3", "p", "b", "div", "strong", "span", "ul", "li", "small", "code", "dl", "dt", "dd"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "svg", "desc", "text"),
}


class HtmlPage(HTMLParser):
    """A parsed page.

    Attributes:
        text: What a reader sees, white space folded.
        titles: What the shapes of the figures say.
        shapes: Classes of all rectangles of the figures.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self._words: list[str] = []
        self.titles: list[str] = []
        self.shapes: list[str] = []
        assert html.startswith("<!doctype html>")
        self.feed(html)
        self.close()
        assert self._open == []
        self.text = re.sub(r"\s+", " ", " ".join(self._words))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, f"<{tag}> has no place in a report"
        for name, value in attributes:
            assert not name.startswith("on"), name
            assert name not in ("src", "href", "action", "srcset"), name
            assert "url(" not in (value or "")
        if tag == "rect":
            self.shapes.append(dict(attributes)["class"] or "")
        if tag not in _VOID or tag == "rect":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if self._open[-1:] == [tag]:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            assert "@import" not in data
            assert "url(" not in data
        elif self._open[-2:] == ["rect", "title"]:
            self.titles.append(data)
        else:
            self._words.append(data.strip())
