"""A report as one HTML page that needs nothing else: no network, no files."""

import functools
import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path

import altair
import jinja2
import vl_convert
from markdown_it import MarkdownIt
from markupsafe import Markup

from .section import Figure, Section
from .table import Column, Table, Words

TEMPLATE = Path(__file__).with_name("page.html")
ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&"})
"""JSON within a script must not end it."""


def html(title: str, facts: Sequence[str], sections: Sequence[Section], source: str, files: Sequence[str] = ()) -> str:
    """The page, which is well-formed XML, too, but for its scripts.

    :param title: its heading, plain text.
    :param facts: Markdown, a line each, common to all sections.
    :param sections: in order.
    :param source: what the figures were measured on; plain text at the end.
    :param files: names of files that stand beside the page.
    """
    figures, tables = itertools.count(1), itertools.count(1)
    return _template().render(
        title=title,
        facts=_markdown("\n".join(f"- {fact}" for fact in facts)),
        sections=[
            (f"{number}-{_slug(s.title)}", s.title, figures_first(s), s.folded) for number, s in enumerate(sections, 1)
        ],
        source=source,
        files=files,
        library=_library() if any(s.figures for s in sections) else "",
        markdown=_markdown,
        inline=lambda text: Markup(_parser().renderInline(text)),
        side=_side,
        folded=folded,
        data=lambda spec: Markup(json.dumps(spec, allow_nan=False).translate(ESCAPES)),
        next_figure=lambda: next(figures),
        next_table=lambda: next(tables),
    )


def picture(figure: Figure, width: int = 760) -> str:
    """A figure as SVG, for where no script runs.

    :param width: in pixels.
    """
    spec = json.loads(json.dumps(figure.spec).replace("containerSize()[0]", str(width)))
    return vl_convert.vegalite_to_svg(spec | {"width": width, "background": "white"})


def figures_first(section: Section) -> list[str | Table | Figure]:
    """What a section consists of, its figures before its first table."""
    rest = [block for block in section.blocks if not isinstance(block, Figure)]
    first = next((i for i, block in enumerate(rest) if isinstance(block, Table)), len(rest))
    return [*rest[:first], *section.figures, *rest[first:]]


def folded(table: Table) -> tuple[list[Column], list[list[str]], str]:
    """Columns and cells of a table; what is the same in all of three rows or more is told once, in words."""
    rows = table.cells()
    same = [i for i in range(1, len(table.columns)) if len(rows) >= 3 and len({row[i] for row in rows}) == 1]
    kept = [i for i in range(len(table.columns)) if i not in same]
    told = "; ".join(f"{table.columns[i].head}: {rows[0][i]}" for i in same)
    return [table.columns[i] for i in kept], [[row[i] for i in kept] for row in rows], told


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(TEMPLATE.read_text())


@functools.cache
def _library() -> Markup:
    """What draws the charts: vega, vega-lite and vega-embed in one script, from the package."""
    version = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    script = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]  # its stub asks for a snippet
    return Markup(script.replace("</script", r"<\/script"))


def _slug(text: str) -> str:
    return re.sub(r"\W+", "-", text.lower()).strip("-")


@functools.cache  # a page asks for each of its cells
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "xhtmlOut": True})
    # texts carry what users typed, such as tags: nothing in them may lead or load from elsewhere
    return parser.disable(["link", "image", "autolink"])


def _markdown(text: str) -> Markup:
    return Markup(_parser().render(text))


def _side(column: Column) -> str:
    return "words" if isinstance(column, Words) else "figures"
