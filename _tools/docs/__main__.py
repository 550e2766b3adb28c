"""What stands behind ``make docs``."""

from .generated import ROOT, pages

for name, text in pages().items():
    (ROOT / name).write_text(text)
    print(f"written to {name}")
