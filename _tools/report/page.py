"""A report as one HTML page that needs nothing else: no network, no files, no scripts."""

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup

from .section import Section
from .table import Column, Words

TEMPLATE = Path(__file__).with_name("page.html")


def html(title: str, facts: Sequence[str], sections: Sequence[Section], source: str) -> str:
    """The page, which is well-formed XML, too.

    :param title: its heading, plain text.
    :param facts: Markdown, a line each, common to all sections.
    :param sections: in order.
    :param source: what the figures were measured on; plain text that stands below each, as figures get copied.
    """
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(TEMPLATE.read_text())
    numbers = itertools.count(1)
    return template.render(
        title=title,
        facts=_markdown("\n".join(f"- {fact}" for fact in facts)),
        sections=sections,
        source=source,
        markdown=_markdown,
        inline=lambda text: Markup(_parser().renderInline(text)),
        side=_side,
        svg=_svg,
        next_number=lambda: next(numbers),
    )


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "xhtmlOut": True})
    # texts carry what users typed, such as tags: nothing in them may lead or load from elsewhere
    return parser.disable(["link", "image", "autolink"])


def _markdown(text: str) -> Markup:
    return Markup(_parser().render(text))


def _side(column: Column) -> str:
    return "words" if isinstance(column, Words) else "figures"


def _svg(svg: str, number: int) -> Markup:
    """A figure whose names take a prefix, as figures of one page may have names in common.

    :param number: of the figure on its page.
    """
    prefix = f"figure-{number}"
    svg = re.sub(r'(\sid="|\shref="#|url\(#)', rf"\g<1>{prefix}-", svg)
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-labelledby="{prefix}" ', 1))
