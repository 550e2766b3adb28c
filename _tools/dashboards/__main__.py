"""What stands behind ``make dashboards``."""

from pathlib import Path

from .content import DASHBOARDS
from .kibana import ndjson

FILE = Path(__file__).parents[2] / "kibana" / "dashboards.ndjson"


def main() -> None:
    FILE.write_text(ndjson(DASHBOARDS))
    print(f"written to {FILE}")


if __name__ == "__main__":
    main()
