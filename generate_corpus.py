"""Command line of the corpus: writes it without Rally, e.g. for a load driver that is prepared in advance."""

import argparse
import multiprocessing
import sys


def _generate(job: tuple) -> object:
    from pathlib import Path

    from cluster_metrics.corpus import Corpus, generate_epoch

    corpus, epoch, out = job
    return generate_epoch(Corpus(**corpus), epoch, Path(out), lambda line: print(line, file=sys.stderr, flush=True))


def main() -> None:
    from dataclasses import asdict

    from cluster_metrics.corpus import LIMITS, Corpus
    from cluster_metrics.files import CorpusError

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder that gets the corpus' own folder")
    for name, default in asdict(Corpus()).items():
        low, high = LIMITS[name]
        text = f"from {low:,} to {high:,} (default {default:,})"
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, metavar="N", help=text)
    cores = multiprocessing.cpu_count()
    parser.add_argument("--processes", type=int, default=cores, metavar="N", help=f"at a time (default {cores})")
    arguments = vars(parser.parse_args())
    out, processes = arguments.pop("out"), arguments.pop("processes")
    try:
        corpus = Corpus(**arguments).check()
        if processes < 1:
            raise CorpusError(f"processes is [{processes}], allowed is an integer from 1")
        jobs = [(arguments, epoch, out) for epoch in range(1, corpus.epochs + 1)]
        with multiprocessing.get_context("spawn").Pool(min(processes, len(jobs))) as pool:
            for path in pool.imap(_generate, jobs):
                print(path)
    except CorpusError as e:
        sys.exit(f"[ERROR] {e}")


if __name__ == "__main__":
    main()
