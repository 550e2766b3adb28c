"""Files of a corpus: each is written whole, with its sha256 beside it, or not at all."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..core.parameters import Parameter

FOLDER = "corpora"
"""Below the track, and below a corpus' folder among Rally's data, so that one name serves for both."""
Progress = Callable[[str], None]
"""Is called with a line of text."""


class CorpusError(Exception):
    """A corpus that cannot be generated or verified; the message is for the person at the terminal."""


@dataclass(frozen=True)
class Part:
    """One file of a corpus.

    :param file: its path below the track or the data folder, always with forward slashes.
    :param docs: documents in it, one a line.
    :param size: in bytes; where lines vary in length, at most.
    :param exact: whether the size is exact.
    :param meta: what the Rally document set carries.
    """

    file: str
    docs: int
    size: int
    exact: bool = True
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Count:
    """A number of documents that a corpus is known to have.

    :param what: which ones, as it follows the word documents in a message; empty for all.
    :param query: that selects them.
    :param documents: how many there must be.
    """

    what: str
    query: dict[str, Any]
    documents: int


class Corpus:
    """What all corpora share; each is a frozen dataclass of what it depends on, a pure function of which it is.

    A corpus may also have ``bodies(number, encoding)``, the blocks of bulk bodies with the rows of a part, and
    ``body_bytes(number, encoding)``, their size at most.
    """

    name: ClassVar[str]
    parameters: ClassVar[dict[str, Parameter]]
    """The track parameter behind each field."""

    @classmethod
    def of(cls, values: Mapping[str, Any], test_mode: bool) -> Any:
        """The corpus that track parameters ask for; in Rally's test mode with at most 1000 documents a file."""
        return cls(**{name: values[parameter.name] for name, parameter in cls.parameters.items()})

    def sizes(self) -> dict[str, Any]:
        """The track parameters that test mode may have changed, as they are."""
        return {parameter.name: getattr(self, name) for name, parameter in self.parameters.items()}

    def check(self) -> Any:
        """Returns itself.

        :raises CorpusError: with one line that names the parameter, the value and what is allowed.
        """
        for name, parameter in self.parameters.items():
            if parameter.accepted(value := getattr(self, name)) is None:
                raise CorpusError(f"{parameter.name} is [{value}], allowed is {parameter.allowed}")
        return self

    def folder(self, *key: object) -> str:
        """Where its files lie: below a hash of what their bytes depend on."""
        return f"{FOLDER}/{self.name}/{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]}"

    def parts(self) -> list[Part]:
        """Its files in order."""
        raise NotImplementedError

    def made(self, number: int) -> tuple[Iterable[bytes | bytearray], Callable[[], Any]]:
        """What a part is made of: its blocks of whole rows, and a function that gives the exact answers to questions
        about them once all blocks are made."""
        raise NotImplementedError

    def counts(self, answers: list[Any], values: Mapping[str, Any]) -> Iterator[Count]:
        """Numbers of documents that an index with this corpus must have.

        :param answers: of each part.
        :param values: the track parameters.
        """
        raise NotImplementedError

    def generate(self, number: int, root: Path, progress: Progress = lambda line: None) -> Path:
        """Makes sure that a part and its answers are below ``root``; does nothing when they already are.

        :param number: of the part, counted from 0.
        :param progress: is called at the end, and every ten seconds in between.
        :return: the path of the rows.
        :raises CorpusError: when the folder cannot be written or the disk is too small.
        """
        part = self.parts()[number]
        path = root / part.file
        if self.is_made(number, root):
            return path
        with contextlib.suppress(OSError):  # of a folder that cannot be written, as is said below
            seal_of(path).unlink(missing_ok=True)
            seal_of(answers_file(path)).unlink(missing_ok=True)
        blocks, answers = self.made(number)
        name = f"corpus {self.name}" + (f", file {number + 1}" if len(self.parts()) > 1 else "")
        started = time.monotonic()
        write_whole(path, part.size, blocks, name, progress)
        record = {"corpus": asdict(self), "answers": answers()}  # type: ignore[call-overload]
        write_whole(answers_file(path), 0, [json.dumps(record).encode()], f"answers of {name}")
        progress(f"{name}: {part.docs:,} rows in {time.monotonic() - started:.1f} s")
        return path

    def is_made(self, number: int, root: Path) -> bool:
        """Whether a part and its answers are below ``root``, whole."""
        part = self.parts()[number]
        path = root / part.file
        return is_whole(path, part.size if part.exact else None) and is_whole(answers_file(path))


def answers_file(rows_file: str | os.PathLike) -> Path:
    """Where the exact answers stand: beside the rows."""
    return Path(rows_file).with_suffix(".answers.json")


def load_answers(rows_file: str | os.PathLike) -> Any:
    """The exact answers to questions about a file, as its corpus made them."""
    return json.loads(answers_file(rows_file).read_text())["answers"]


def seal_of(path: Path) -> Path:
    """Where the sha256 of a file stands, in the form that ``sha256sum --check`` reads."""
    return path.with_name(f"{path.name}.sha256")


def is_whole(path: Path, size: int | None = None) -> bool:
    """Whether a file has its sha256, and its size if that is given."""
    try:
        seal = seal_of(path).read_text().split()[0]
        return size in (None, path.stat().st_size) and _sha256(path) == seal
    except (OSError, IndexError):
        return False


def write_whole(
    path: Path, size: int, blocks: Iterable[bytes | bytearray], name: str, progress: Progress = lambda line: None
) -> None:
    """Writes a file under a temporary name and renames it, its sha256 last, so that a run cut short at any moment
    leaves nothing that looks whole. Parts that killed processes left are removed first.

    :param size: bytes to be written, at most.
    :param name: of what is written, in messages.
    :param progress: is called every ten seconds.
    :raises CorpusError: when the folder cannot be written or the disk is too small.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in path.parent.glob(f"{path.name}.*.part"):
            if not os.path.exists(f"/proc/{old.suffixes[-2][1:]}"):
                old.unlink(missing_ok=True)
        free = shutil.disk_usage(path.parent).free
        if free < size:
            raise CorpusError(f"{name} needs {size:,} bytes in [{path.parent}], free are {free:,}")
        digest = _write(part, size, blocks, name, progress)
        seal_of(path).unlink(missing_ok=True)
        os.replace(part, path)
        part.write_text(f"{digest}  {path.name}\n")
        os.replace(part, seal_of(path))
    except OSError as e:
        why = "disk full" if e.errno == errno.ENOSPC else e.strerror
        raise CorpusError(f"cannot write {name} to [{path.parent}]: {why}") from e
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _write(path: Path, size: int, blocks: Iterable[bytes | bytearray], name: str, progress: Progress) -> str:
    """Writes blocks and returns their sha256."""
    digest = hashlib.sha256()
    done, said = 0, time.monotonic()
    with open(path, "wb") as out:
        for block in blocks:
            out.write(block)
            digest.update(block)
            done += len(block)
            if (now := time.monotonic()) - said > 10:
                progress(f"{name}: {100 * done // max(1, size)} % of {size:,} bytes")
                said = now
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
