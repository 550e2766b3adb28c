"""A report as one HTML page that needs nothing else: no network, no files, no scripts."""

import re
from collections.abc import Sequence
from html import escape

from markdown_it import MarkdownIt

from .section import Figure, Section

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --quiet: #59636e; --rule: #d1d9e0; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --paper: #14171a; --quiet: #9aa4af; --rule: #3a4149; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--rule); }
p, li { max-width: 46rem; overflow-wrap: break-word; }
ul { padding-left: 1.2rem; }
code { font: .9em ui-monospace, monospace; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .5rem; border-bottom: 1px solid var(--rule); vertical-align: top; white-space: nowrap; }
th { vertical-align: bottom; white-space: normal; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
figure { display: flex; flex-wrap: wrap; gap: 1rem 1.5rem; align-items: start; margin: 1.5rem 0; }
figure .scroll { flex: 0 1 auto; max-width: 100%; margin: 0; }
figure svg { display: block; }
figcaption { flex: 1 1 15rem; font-size: .875rem; }
figcaption small { display: block; margin-top: .4rem; font-size: .8125rem; color: var(--quiet); }
@media (max-width: 40rem) {
  table { width: max-content; }
  td[style*=left] { white-space: normal; max-width: 9rem; overflow-wrap: anywhere; }
}
@media print {
  main { max-width: none; padding: 0; }
  figure, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
  .scroll { overflow: visible; }
  table { font-size: 8pt; }
  th, td { white-space: normal; }
}
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Has the browser refuse whatever the page might ask for, should a text smuggle something in."""


def html(title: str, facts: Sequence[str], sections: Sequence[Section], source: str) -> str:
    """The page, which is well-formed XML, too.

    :param title: its heading, plain text.
    :param facts: Markdown, a line each, common to all sections.
    :param sections: in order.
    :param source: what the figures were measured on; plain text that stands below each, as figures get copied.
    """
    parts = [f"<h1>{escape(title)}</h1>", _markdown("\n".join(f"- {fact}" for fact in facts))]
    count = 0
    for section in sections:
        parts += [f"<section>\n<h2>{escape(section.title)}</h2>", _markdown(section.text)]
        for figure in section.figures:
            count += 1
            parts.append(_figure(figure, count, source))
        parts.append("</section>")
    return f"""<!DOCTYPE html>
<html lang="en" xmlns="http://www.w3.org/1999/xhtml">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta http-equiv="Content-Security-Policy" content="{POLICY}" />
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{chr(10).join(parts)}
</main>
</body>
</html>
"""


def _markdown(text: str) -> str:
    """Markdown as XHTML; its tables scroll within a box of their own."""
    md = MarkdownIt("commonmark", {"html": False, "xhtmlOut": True}).enable("table")
    # texts carry what users typed, such as tags: nothing in them may lead or load from elsewhere
    md.disable(["link", "image", "autolink"])
    md.add_render_rule("table_open", lambda *_: '<div class="scroll" tabindex="0">\n<table>\n')
    md.add_render_rule("table_close", lambda *_: "</table>\n</div>\n")
    return md.render(text)


def _figure(figure: Figure, number: int, source: str) -> str:
    """A figure with its caption. Its names take a prefix, as figures of one page may have names in common.

    :param number: of the figure on its page.
    """
    prefix = f"figure-{number}"
    svg = re.sub(r'(\sid="|\shref="#|url\(#)', rf"\g<1>{prefix}-", figure.svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-labelledby="{prefix}" ', 1)
    caption = f"{escape(figure.caption)}\n<small>{escape(source)}</small>"
    return (
        f'<figure>\n<div class="scroll" tabindex="0">{svg}</div>\n<figcaption id="{prefix}">{caption}</figcaption>\n'
        "</figure>"
    )
