"""The corpora of this track by name, and which challenge uses which.

A corpus is a dataclass of its parameters with a ``name``, ``of`` (made from track parameters), ``check``, ``sizes``
(track parameters), ``parts`` (its files) and ``generate`` (writes one of them, with the exact answers beside it).
"""

from typing import Any

from .corpus import Corpus
from .text_values import TextValues
from .words import Words

CORPORA: dict[str, Any] = {kind.name: kind for kind in (Corpus, TextValues, Words)}
BY_CHALLENGE = {
    "esql-stored-fields": TextValues.name,
    "capacity-indexing": Words.name,
    "capacity-query": Words.name,
    "capacity-mixed": Words.name,
}
"""Challenges whose corpus is not cluster-metrics."""


def name_of(challenge: str) -> str:
    """The name of a challenge's corpus."""
    return BY_CHALLENGE.get(challenge, Corpus.name)


def corpus_in(track: Any, name: str = Corpus.name) -> Any:
    """The corpus of that name that the track processor noted in the track."""
    return CORPORA[name](**next(c for c in track.corpora if c.name == name).meta_data)
