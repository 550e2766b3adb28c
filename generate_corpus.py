"""Command line of the corpora: writes one without Rally, e.g. for a load driver that is prepared in advance.

Below the folder of this track a race finds it, and uses it where it is whole.
"""

import argparse
import multiprocessing
import sys
from functools import partial
from pathlib import Path
from typing import Any


def _generate(corpus: Any, root: Path, encodings: list[str], number: int) -> Path:
    from cluster_metrics.corpus.encoded import generate_bodies

    def progress(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    path = corpus.generate(number, root, progress)
    for encoding in encodings:
        generate_bodies(corpus, number, encoding, path, progress)
    return path


def main() -> None:
    from cluster_metrics.core.challenge import corpora
    from cluster_metrics.core.parameters import Flag, Integer
    from cluster_metrics.corpus.encoded import ENCODINGS
    from cluster_metrics.corpus.files import CorpusError

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).resolve().parent
    parser.add_argument("--out", default=here, metavar="DIR", help="the folder that gets corpora/ (default here)")
    cores = multiprocessing.cpu_count()
    parser.add_argument("--processes", type=int, default=cores, metavar="N", help=f"at a time (default {cores})")
    names = parser.add_subparsers(dest="corpus", metavar="CORPUS", required=True)
    known = corpora()
    for name, kind in known.items():
        options = names.add_parser(name, help=str(sys.modules[kind.__module__].__doc__).splitlines()[0])
        for field, parameter in kind.parameters.items():
            default = getattr(kind(), field)
            option = f"--{parameter.name.replace('_', '-')}"
            text = f"{parameter.text} {parameter.allowed} (default {default})"
            if isinstance(parameter, Flag):
                options.add_argument(option, dest=field, action="store_true", help=parameter.text)
                continue
            number = isinstance(parameter, Integer)
            options.add_argument(option, dest=field, type=int if number else str, default=default, help=text)
        if hasattr(kind, "bodies"):
            options.add_argument("--bodies", nargs="*", default=[], choices=list(ENCODINGS), help="bulk bodies, too")
    arguments = parser.parse_args()
    kind = known[arguments.corpus]
    try:
        corpus = kind(**{field: getattr(arguments, field) for field in kind.parameters}).check()
        if arguments.processes < 1:
            raise CorpusError(f"processes is [{arguments.processes}], allowed is an integer from 1")
        numbers, encodings = range(len(corpus.parts())), getattr(arguments, "bodies", [])
        with multiprocessing.get_context("spawn").Pool(min(arguments.processes, len(numbers))) as pool:
            for path in pool.imap(partial(_generate, corpus, Path(arguments.out), encodings), numbers):
                print(path)
    except CorpusError as e:
        sys.exit(f"[ERROR] {e}")


if __name__ == "__main__":
    main()
