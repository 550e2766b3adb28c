"""The corpora of a race: laid out in Rally's track, prepared on a load driver, and read there."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from esrally import exceptions

from .encoded import encoded_file, generate_bodies
from .files import Corpus, CorpusError, Progress, load_answers, locked, problems

TRACK = Path(__file__).parents[2]


def lay_out(track: Any, corpus: Corpus) -> None:
    """Replaces the one document set of the corpus' JSON by one per file, with names and sizes as generated."""
    documents = next(c for c in track.corpora if c.name == corpus.name)
    documents.meta_data = asdict(corpus)  # type: ignore[call-overload]
    pattern = documents.documents[0]
    documents.documents = []
    for part in corpus.parts():
        document_set = copy.copy(pattern)
        document_set.document_file = part.file
        document_set.number_of_documents = part.docs
        document_set.uncompressed_size_in_bytes = part.size if part.exact else None
        document_set.meta_data = part.meta
        documents.documents.append(document_set)


def index_of(track: Any, corpus: Any) -> str:
    """The index that the corpus' JSON names as the one to load it into."""
    return str(_documents(track, corpus).documents[0].target_index)


def corpus_in(track: Any, kind: type) -> Any:
    """The corpus of a class of corpora as :func:`lay_out` noted it in the track."""
    return kind(**_documents(track, kind).meta_data)


def _documents(track: Any, kind: Any) -> Any:
    return next(c for c in track.corpora if c.name == kind.name)


def is_there(corpus: Corpus, number: int, data: Path, encodings: Sequence[str]) -> bool:
    """Whether :func:`generate` would leave a file of a corpus as it is, with its answers and bulk bodies."""
    file = corpus.parts()[number].file
    root = TRACK if (TRACK / file).exists() else data
    return not corpus.problems(number, root) and not any(problems(encoded_file(root / file, of)) for of in encodings)


def generate(corpus: Corpus, number: int, data: Path, encodings: Sequence[str], progress: Progress) -> None:
    """Makes sure that a file of a corpus is where Rally finds it, with its answers and bulk bodies: below the track,
    where it lies there whole, or else below ``data``. A damaged one below the track is moved aside.

    :param number: of the file, counted from 0.
    :param data: the corpus' folder among Rally's data.
    :raises CorpusError: when a folder cannot be written or the disk is too small.
    """
    bundled = TRACK / corpus.parts()[number].file
    if bundled.exists() and corpus.problems(number, TRACK):
        _move_aside(bundled, lambda: corpus.problems(number, TRACK), progress)
    rows = corpus.generate(number, TRACK if bundled.exists() else data, progress)
    for encoding in encodings:
        generate_bodies(corpus, number, encoding, rows, progress)


def _move_aside(bundled: Path, wrong: Callable[[], list[str]], progress: Progress) -> None:
    aside = bundled.with_name(f"{bundled.name}.damaged")
    try:
        with locked(bundled, progress):
            if found := wrong():  # unless another process has just made it anew
                bundled.rename(aside)
                progress(f"{found[0]}; [{bundled}] is not used, it is now [{aside.name}]")
    except OSError as e:
        raise CorpusError(f"[{bundled}] is damaged and cannot be moved aside: {e.strerror}") from e


class Prepared:
    """A corpus on this load driver, with the exact answers beside its rows.

    :param track: the Rally track, after its track processor.
    :param kind: class of the corpus.
    """

    def __init__(self, track: Any, kind: type):
        self.corpus = corpus_in(track, kind)
        self._files = [document_set.document_file for document_set in _documents(track, kind).documents]
        self._answers: dict[int, Any] = {}

    def file(self, number: int = 0) -> str:
        """The path of a part, counted from 0.

        :raises esrally.exceptions.DataError: when it is not there.
        """
        if not (found := self._files[number]):
            raise exceptions.DataError(
                f"{self.corpus.parts()[number].file} of corpus {self.corpus.name} is missing on this load driver; "
                "run generate_corpus.py here, or race without --offline preparation of another host"
            )
        return found

    def answers(self, number: int = 0) -> Any:
        """The exact answers of a part. Rally makes param sources before the corpus is prepared: not before then.

        :raises esrally.exceptions.DataError: when they are not there, or damaged.
        """
        if number not in self._answers:
            try:
                self._answers[number] = load_answers(self.file(number))
            except CorpusError as e:
                raise exceptions.DataError(f"{e}; race again, which makes them anew") from None
        return self._answers[number]

    def counts(self, values: Any) -> list[Any]:
        """Numbers of documents that an index with this corpus must have; see :meth:`.files.Corpus.counts`."""
        return list(self.corpus.counts([self.answers(n) for n in range(len(self._files))], values))
