"""Files of a corpus: each is written whole, with its sha256 beside it, or not at all."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from ..core.parameters import Parameter

FOLDER = "corpora"
"""Below the track, and below a corpus' folder among Rally's data, so that one name serves for both."""
TEST_MODE_DOCUMENTS = 1000
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
        """The corpus that track parameters ask for; in Rally's test mode with at most 1000 documents a file. What a
        race of an older version has no parameter for is as by default."""
        found = {name: values[p.name] for name, p in cls.parameters.items() if p.name in values}
        if test_mode and "documents" in found:
            found["documents"] = min(found["documents"], TEST_MODE_DOCUMENTS)
        return cls(**found)

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

    def shape(self, body: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """The body of the index that it is loaded into.

        :param body: as the track's JSON has it.
        :param values: the track parameters.
        """
        return body

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
        :param progress: is called with what is damaged, at the end, and every ten seconds in between.
        :return: the path of the rows.
        :raises CorpusError: when the folder cannot be written or the disk is too small.
        """
        part = self.parts()[number]
        path = root / part.file
        name = f"corpus {self.name}" + (f", file {number + 1}" if len(self.parts()) > 1 else "")

        def content() -> Iterator[bytes | bytearray]:
            started = time.monotonic()
            blocks, answers = self.made(number)
            yield from blocks
            record = {"corpus": asdict(self), "answers": answers()}  # type: ignore[call-overload]
            write_whole(answers_file(path), 0, [json.dumps(record).encode()], f"answers of {name}")
            progress(f"{name}: {part.docs:,} rows in {time.monotonic() - started:.1f} s")

        write_whole(path, part.size, content(), name, progress, lambda: self.problems(number, root))
        return path

    def problems(self, number: int, root: Path) -> list[str]:
        """What keeps a part and its answers below ``root`` from being whole, a text for each file."""
        part = self.parts()[number]
        path = root / part.file
        return problems(path, part.size if part.exact else None) + problems(answers_file(path))


def answers_file(rows_file: str | os.PathLike) -> Path:
    """Where the exact answers stand: beside the rows."""
    return Path(rows_file).with_suffix(".answers.json")


def load_answers(rows_file: str | os.PathLike) -> Any:
    """The exact answers to questions about a file, as its corpus made them.

    :raises CorpusError: when they are not there, or not the bytes that were written.
    """
    path = answers_file(rows_file)
    try:
        raw = path.read_bytes()
    except OSError as e:
        raise CorpusError(f"cannot read the exact answers [{path}]: {e.strerror}") from None
    if hashlib.sha256(raw).hexdigest() != sealed(path):
        raise CorpusError(f"the exact answers [{path}] are damaged: they differ from [{seal_of(path).name}]")
    return json.loads(raw)["answers"]


def seal_of(path: Path) -> Path:
    """Where the sha256 of a file stands, in the form that ``sha256sum --check`` reads."""
    return path.with_name(f"{path.name}.sha256")


def sealed(path: Path) -> str:
    """The sha256 that stands beside a file; empty when none does."""
    try:
        return seal_of(path).read_text(errors="replace").split()[0]
    except (OSError, IndexError):
        return ""


def problems(path: Path, size: int | None = None) -> list[str]:
    """What keeps a file from being whole, in at most one text: it has its sha256, and its size if that is given."""
    try:
        whole = size in (None, path.stat().st_size) and _sha256(path) == sealed(path)
        return [] if whole else [f"[{path}] is damaged"]
    except OSError as e:
        return [f"[{path}] is missing" if isinstance(e, FileNotFoundError) else f"cannot read [{path}]: {e.strerror}"]


def write_whole(
    path: Path,
    size: int,
    blocks: Iterable[bytes | bytearray],
    name: str,
    progress: Progress = lambda line: None,
    wrong: Callable[[], list[str]] | None = None,
) -> None:
    """Makes sure that a file is there, whole. It is written under a temporary name and renamed, after its sha256, so
    that a run cut short at any moment leaves nothing that looks whole. Of several processes one writes it, and the
    others wait.

    :param size: bytes to be written, at most.
    :param name: of what is written, in messages.
    :param progress: is called with what is damaged, when another process is at it, and every ten seconds.
    :param wrong: what keeps the file from being left as it is; by default that it is not whole.
    :raises CorpusError: when the folder cannot be written or the disk is too small.
    """
    wrong = wrong or (lambda: problems(path))
    if not wrong():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path, progress) as (part, out):
            if not (found := wrong()):
                return
            for problem in found if path.exists() else []:
                progress(f"{problem} and is made anew")
            out.truncate()
            free = shutil.disk_usage(path.parent).free
            if free < size:
                raise CorpusError(f"{name} needs {size:,} bytes in [{path.parent}], free are {free:,}")
            digest = _write(out, size, blocks, name, progress)
            seal_of(path).write_text(f"{digest}  {path.name}\n")
            os.replace(part, path)
    except OSError as e:
        why = "disk full" if e.errno == errno.ENOSPC else e.strerror
        raise CorpusError(f"cannot write {name} to [{path.parent}]: {why}") from e


@contextlib.contextmanager
def locked(path: Path, progress: Progress) -> Iterator[tuple[Path, BinaryIO]]:
    """The temporary name of a file, and that file opened, for one process at a time. The lock is on the file that bears
    the temporary name: it ends with the process that holds it, however that ends, and with its renaming."""
    part = path.with_name(f"{path.name}.part")
    while True:
        with open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+b") as out:
            try:
                fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress(f"[{path}] is being written by another process, which is waited for")
                fcntl.flock(out, fcntl.LOCK_EX)
            if not _bears(out, part):
                continue  # who held the lock renamed or removed it
            try:
                yield part, out
            finally:
                if _bears(out, part):
                    part.unlink()
            return


def _bears(file: BinaryIO, path: Path) -> bool:
    """Whether an open file bears that name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _write(out: BinaryIO, size: int, blocks: Iterable[bytes | bytearray], name: str, progress: Progress) -> str:
    """Writes blocks and returns their sha256."""
    digest = hashlib.sha256()
    done, said = 0, time.monotonic()
    for block in blocks:
        out.write(block)
        digest.update(block)
        done += len(block)
        if (now := time.monotonic()) - said > 10:
            progress(f"{name}: {100 * done // max(1, size)} % of {size:,} bytes")
            said = now
    out.flush()
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
