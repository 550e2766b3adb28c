"""What stands behind ``make dashboards``."""

from .content import DASHBOARDS
from .kibana import FILE, ndjson

FILE.write_text(ndjson(DASHBOARDS))
print(f"written to {FILE}")
