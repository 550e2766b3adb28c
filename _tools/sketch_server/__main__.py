"""Runs the sketch server in the foreground: ``python -m _tools.sketch_server [--host] [--port]``."""

import argparse

from aiohttp import web

from .server import application


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m _tools.sketch_server", description="The in-memory sketch server.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=9210, help="port to listen on (default %(default)s)")
    arguments = parser.parse_args()
    web.run_app(application(), host=arguments.host, port=arguments.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
