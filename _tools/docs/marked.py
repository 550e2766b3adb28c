"""Parts of a page that a command of make writes."""

from pathlib import Path


def put(page: Path, name: str, target: str, text: str) -> None:
    """Puts text between the marks of its name in a page.

    :param target: of make, which writes it.
    :raises ValueError: when the page lacks the marks.
    """
    begin, end = f"<!-- {name}, by make {target} -->\n", f"<!-- end of {name} -->\n"
    before, rest = page.read_text().split(begin, 1)
    page.write_text(f"{before}{begin}{text}{end}{rest.split(end, 1)[1]}")
