"""Writes what the micro-benchmarks are fed with: the corpora's own values, in the order in which they are indexed."""

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cluster_metrics.corpus.encoded import ENCODINGS, JSON
from cluster_metrics.corpus.metrics import FIELDS, FORMAT_VERSION, Metrics, rows
from cluster_metrics.esql.text_values import FORMS, TextValues, order_of

BULK_ROWS = 1000
"""Rows of the bulk bodies that are parsed: those of a request by default."""
TEXTS_OF_A_VALUE = 100
"""Documents of each distinct text at most: all shares of them are read anew in each iteration."""


@dataclass(frozen=True)
class Inputs:
    """The corpora that the benchmarks use.

    :param texts: of esql-stored-fields, with fewer documents; each form is written.
    """

    metrics: Metrics
    texts: TextValues

    @classmethod
    def of(cls, values: Mapping[str, Any], test_mode: bool = False) -> "Inputs":
        """Those that checked track parameters ask for.

        :param test_mode: with at most 1000 documents an epoch, and one of each text.
        """
        texts = TextValues.of(values, test_mode)
        most = min(texts.documents, TEXTS_OF_A_VALUE * texts.values)
        return cls(Metrics.of(values, test_mode), replace(texts, documents=most))

    @property
    def key(self) -> str:
        """A hash of all that the files depend on."""
        parts = (FORMAT_VERSION, BULK_ROWS, astuple(self.metrics), astuple(self.texts))
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]

    def record(self) -> dict[str, Any]:
        """The sizes, by track parameter."""
        return {**self.metrics.sizes(), **self.texts.sizes(), "bulk_rows": self.bulk_rows}

    @property
    def bulk_rows(self) -> int:
        return min(BULK_ROWS, self.metrics.rows_per_epoch)

    def write(self, root: Path) -> Path:
        """Makes sure that the files are in a folder of their own below ``root``, whole; returns the folder."""
        folder = root / f"input-{self.key}"
        if not folder.is_dir():
            part = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            self._write_metrics(part)
            self._write_texts(part)
            lines = (f"{name}={value}\n" for name, value in self.record().items())
            (part / "input.properties").write_text("".join(lines))
            part.rename(folder)
        return folder

    def _write_metrics(self, folder: Path) -> None:
        """The fields as little-endian 32-bit floats, epoch after epoch, and the first rows as bulk bodies."""
        for epoch in range(1, self.metrics.epochs + 1):
            values = values_of(self.metrics, epoch)
            for field in FIELDS:
                with open(folder / f"{field}.bin", "ab") as f:
                    f.write(values[field].tobytes())
        for name, encoding in ENCODINGS.items():
            size = self.bulk_rows * encoding.row_format.row_bytes(1)
            block = next(iter(rows(self.metrics, 1, encoding.row_format)))
            (folder / f"bulk-{name}.bin").write_bytes(block[:size])

    def _write_texts(self, folder: Path) -> None:
        """The documents in each form, a line each, and the values by which they are selected."""
        for form in FORMS:
            with open(folder / f"texts-{form}.json", "wb") as f:
                f.writelines(replace(self.texts, form=form).made(0)[0])
        order: list[int] = []
        while len(order) < self.texts.documents:
            order += order_of(self.texts, len(order) // len(order_of(self.texts, 0)))
        (folder / "texts.bin").write_bytes(np.array(order, dtype="<u2").tobytes())


def values_of(corpus: Metrics, epoch: int) -> dict[str, np.ndarray]:
    """The values of an epoch by field, in the order of its rows, as 32-bit floats, which is how they are indexed."""
    width, start = JSON.row_bytes(epoch), len(JSON.prefix(epoch, 1, 1))
    found: dict[str, list[np.ndarray]] = {field: [] for field in FIELDS}
    for block in rows(corpus, epoch):
        table = np.frombuffer(block, dtype="S1").reshape(-1, width)
        first = start
        for field in FIELDS:
            chars = JSON.widths[field]
            text = np.ascontiguousarray(table[:, first : first + chars]).view(f"S{chars}")
            found[field].append(text[:, 0].astype("<f4"))
            first += chars + len(JSON.suffixes[field])
    return {field: np.concatenate(parts) for field, parts in found.items()}
