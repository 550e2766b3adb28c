"""Runs the sketch server in the foreground: ``python -m _tools.sketch_server --help``."""

import argparse
import asyncio
import contextlib
import sys

from .server import MOST_GROUPS, SECONDS, serve


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m _tools.sketch_server", description="The in-memory sketch server.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=9210, help="port to listen on (default %(default)s)")
    text = "epochs by nodes that it holds at most, 2.5 kB each (default %(default)s)"
    parser.add_argument("--most-groups", type=int, default=MOST_GROUPS, metavar="N", help=text)
    text = "after which a client is cut off that sends no whole request (default %(default)s)"
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help=text)
    arguments = parser.parse_args()
    for name in ("most_groups", "seconds"):
        if not (value := getattr(arguments, name)) > 0:
            parser.error(f"--{name.replace('_', '-')} is [{value:g}], allowed is a number above 0")
    if not 0 <= arguments.port <= 65535:
        parser.error(f"--port is [{arguments.port}], allowed is a port from 0 to 65535")
    with contextlib.suppress(KeyboardInterrupt):
        try:
            asyncio.run(serve(**vars(arguments)))
        except OSError as e:
            sys.exit(f"[ERROR] cannot listen on [{arguments.host}:{arguments.port}]: {e.strerror}")


if __name__ == "__main__":
    main()
