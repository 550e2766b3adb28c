"""The terms of reports: one term for one thing."""

import re
from collections.abc import Sequence

from .section import Section

TERMS = {
    "bucket": "a stretch of time of fixed length in which acknowledged documents are counted",
    "configuration": "what is measured against others: a way to ask, a client, a format, a setting, a layout",
    "coverage": "one answer to the whole production question: the searches on all nodes of one epoch",
    "CV": "coefficient of variation: standard deviation over mean",
    "drift": "a rise or fall of all configurations together from round to round",
    "epoch": "a part of the corpus with one timestamp; each holds all nodes and tasks",
    "interval": "the range that holds the true figure in 95 of 100 races like this one, as far as its samples tell",
    "latency": "service time and what a request waited for its turn",
    "noise floor": "noise threshold: how much races of one configuration differ by themselves, measured by make noise",
    "pass": "one run over all configurations, each for a while, in an order of its own",
    "published statement": "what a source says (see References); it holds if the whole interval says so",
    "round": "one visit to each configuration, in an order of its own: what is replicated",
    "service time": "from the start of sending a request to the end of its response",
    "sketch server": "a server that keeps nothing but what the answers need: a lower bound for Elasticsearch",
    "steady window": "a load without its first tenth and without its end, when clients run out of documents",
    "took": "the time in ms that Elasticsearch itself reports for a request",
    "trade-off": "what a gain costs besides",
    "wall": "wall time: what the client waits, network and decoding included",
}
"""Each term that reports use in a sense of their own, in their order; plurals count."""


def section(sections: Sequence[Section]) -> list[Section]:
    """The terms that these sections use."""
    text = "\n".join(f"{section.title}\n{section.text}" for section in sections)
    used = {t: meaning for t, meaning in TERMS.items() if re.search(rf"\b{re.escape(t)}(s|es)?\b", text, re.I)}
    lines = "".join(f"- *{term}*: {meaning}\n" for term, meaning in used.items())
    return [Section("Terms", [lines])] if used else []
