"""The corpus of the capacity challenges: documents of a timestamp and two fields of 100 common English words.

A pure function of its parameters: every word is drawn with 16 bits of SHAKE-128 over the seed and the number of the
block, so the same parameters give the same bytes on every host. About 1.1 kB a document, as in the capacity articles
that the challenges follow (fields of 500 to 600 characters).
"""

import hashlib
import json
import os
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path

from .corpus import part_of
from .coverage import shuffled

FORMAT_VERSION = 1
NAME = "words"
FIELDS = ("field1", "field2")
WORDS_PER_FIELD = 100
BLOCK_DOCUMENTS = 10_000
START_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z; each document is a second later than the one before."""
SLOTS = 1 << 16
FREQUENCIES = ("uniform", "natural")
CHECKED_QUERIES = 20
"""Queries whose number of matching documents is known exactly."""
MOST_DOCUMENT_BYTES = 1500


def vocabulary() -> list[str]:
    """1024 common English words of two to six letters."""
    return Path(__file__).with_name("words.txt").read_text().split()


@dataclass(frozen=True)
class Words:
    """The parameters of the corpus.

    :param documents: how many (default 300,000).
    :param frequency: of the words: ``uniform`` (as in the articles) or ``natural`` (Zipf's law, in an order of the
        seed).
    :param seed: of all draws (default 42).
    """

    documents: int = 300_000
    frequency: str = "uniform"
    seed: int = 42

    @property
    def directory(self) -> str:
        """The folder of this corpus: its name ends in a hash over the parameters and the version of the format."""
        key = json.dumps([FORMAT_VERSION, *asdict(self).values()])
        return f"{NAME}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"

    @property
    def file_name(self) -> str:
        """The path of the documents below the data folder, always with forward slashes."""
        return f"{self.directory}/documents.json"

    def slots(self) -> list[str]:
        """65,536 words, each in as many slots as its frequency asks."""
        words = shuffled(vocabulary(), self.seed)
        weights = [10**9 // place if self.frequency == "natural" else 10**9 for place in range(1, len(words) + 1)]
        ends = list(accumulate(weights))
        return [words[bisect_right(ends, (2 * slot + 1) * ends[-1] // (2 * SLOTS))] for slot in range(SLOTS)]

    def texts(self) -> Iterator[tuple[str, ...]]:
        """The fields of each document, in order."""
        slots, words = self.slots(), len(FIELDS) * WORDS_PER_FIELD
        for block, first in enumerate(range(0, self.documents, BLOCK_DOCUMENTS)):
            count = min(BLOCK_DOCUMENTS, self.documents - first)
            drawn = list(map(slots.__getitem__, self._draws("block", block, count * words)))
            for start in range(0, len(drawn), words):
                yield tuple(
                    " ".join(drawn[at : at + WORDS_PER_FIELD]) for at in range(start, start + words, WORDS_PER_FIELD)
                )

    def queries(self, count: int) -> list[str]:
        """Texts for ``match``: one to four words each, from the same list at the same frequency."""
        slots = self.slots()
        draws = iter(self._draws("queries", 0, 5 * count))
        return [" ".join(slots[draw] for draw in drawn[: 1 + length % 4]) for length, *drawn in zip(*[draws] * 5)]

    def _draws(self, kind: str, block: int, count: int) -> array:
        key = f"{NAME}/{FORMAT_VERSION}/{self.seed}/{kind}/{block}"
        draws = array("H", hashlib.shake_128(key.encode()).digest(2 * count))
        if sys.byteorder == "big":
            draws.byteswap()
        return draws


def hits_file(documents_file: str | os.PathLike) -> Path:
    """Where the exact numbers of hits stand: beside the documents."""
    return Path(documents_file).with_suffix(".hits.json")


def generate(corpus: Words, data_root: Path) -> Path:
    """Makes sure that the documents and the hits of the first queries are there; does nothing when they are.

    The hits are written last, so a run cut short leaves nothing that looks whole.

    :return: the path of the documents.
    :raises CorpusError: when the folder cannot be written or the disk is too small.
    """
    path = data_root / corpus.file_name
    try:
        if json.loads(hits_file(path).read_text())["bytes"] == path.stat().st_size:
            return path
    except (OSError, ValueError, KeyError):
        pass
    queries = [set(query.split()) for query in corpus.queries(CHECKED_QUERIES)]
    hits = [0] * len(queries)
    with part_of(path, corpus.documents * MOST_DOCUMENT_BYTES, "corpus words") as part:
        with open(part, "wb") as out:
            for number, (field1, field2) in enumerate(corpus.texts()):
                out.write(
                    b'{"timestamp":%d,"field1":"%b","field2":"%b"}\n'
                    % (START_MS + 1000 * number, field1.encode(), field2.encode())
                )
                found = set(field1.split())
                for i, words in enumerate(queries):
                    hits[i] += not words.isdisjoint(found)
        os.replace(part, path)
        part.write_text(json.dumps({"bytes": path.stat().st_size, "hits": hits}))
        os.replace(part, hits_file(path))
    return path
