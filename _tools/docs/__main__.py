"""What stands behind ``make docs``."""

from .generated import write_pages

for name in write_pages():
    print(f"written to {name}")
