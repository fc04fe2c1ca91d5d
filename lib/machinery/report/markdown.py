"""Markdown to HTML that needs nothing from the network: formulas as MathML, no links to files that are not there."""

from __future__ import annotations

import latex2mathml.converter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

# the converter takes ∼ for a letter, which loses the space around it
_LETTER, _RELATION = "<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>"
_KEPT = ("http://", "https://", "mailto:", "#")


class _Renderer(IPythonRenderer):
    def __init__(self, attachments: dict | None = None):
        super().__init__(escape=False, exclude_anchor_links=True, attachments=attachments)

    def block_math(self, body: str) -> str:
        return f'<div class="formula">{mathml(body, "block") or super().block_math(body)}</div>'

    def inline_math(self, body: str) -> str:
        return mathml(body, "inline") or super().inline_math(body)

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """Links into the repository would lead nowhere from here: their text stays."""
        return super().link(text, url, title) if url.startswith(_KEPT) else text

    def image(self, text: str, url: str, title: str | None = None) -> str:
        """Only what is embedded: other pictures are not beside the page."""
        return super().image(text, url, title) if url.startswith(("attachment:", "data:")) else text


def to_html(text: str, attachments: dict | None = None) -> str:
    return MarkdownWithMath(renderer=_Renderer(attachments)).render(text)


def mathml(formula: str, display: str) -> str:
    """MathML, or nothing where the converter does not know the formula's commands."""
    try:
        converted = latex2mathml.converter.convert(formula.strip(), display=display)
    except Exception:  # its parser raises whatever it stumbles on
        return ""
    return "" if "\\" in converted else converted.replace(_LETTER, _RELATION)
