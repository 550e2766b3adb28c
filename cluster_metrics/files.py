"""Files of a corpus: each is written whole, with its exact answers beside it, or not at all."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class CorpusError(Exception):
    """A corpus that cannot be generated or verified; the message is for the person at the terminal."""


@dataclass(frozen=True)
class Part:
    """One file of a corpus.

    :param file: its path below the corpus' data folder, always with forward slashes.
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


def answers_file(rows_file: str | os.PathLike) -> Path:
    """Where the exact answers stand: beside the rows."""
    return Path(rows_file).with_suffix(".answers.json")


def load_answers(rows_file: str | os.PathLike) -> Any:
    """The exact answers to questions about a file, as its corpus made them."""
    return json.loads(answers_file(rows_file).read_text())["answers"]


def is_whole(path: Path, size: int | None = None) -> bool:
    """Whether rows and answers are there, and the rows have their size (if it is given) and sha256."""
    try:
        record = json.loads(answers_file(path).read_text())
        return size in (None, path.stat().st_size) and _sha256(path) == record["sha256"]
    except (OSError, ValueError, KeyError):
        return False


def write_whole(
    path: Path,
    part: Part,
    blocks: Iterable[bytes | bytearray],
    answers: Callable[[], Any],
    record: dict[str, Any],
    name: str,
    progress: Callable[[str], None],
) -> Path:
    """Writes rows and exact answers under a temporary name and renames them, the answers last, so that a run cut short
    at any moment leaves nothing that looks whole.

    :param blocks: of whole rows.
    :param answers: is called once all blocks are written.
    :param record: what the file of answers says about the rows besides their sha256.
    :param name: of the rows in messages.
    :param progress: is called with a line of text at the end, and every ten seconds in between.
    :raises CorpusError: when the folder cannot be written or the disk is too small.
    """
    with part_of(path, part.size, name) as temporary:
        answers_file(path).unlink(missing_ok=True)
        digest = hashlib.sha256()
        done, started = 0, time.monotonic()
        said = started
        with open(temporary, "wb") as out:
            for block in blocks:
                out.write(block)
                digest.update(block)
                done += len(block)
                if (now := time.monotonic()) - said > 10:
                    progress(f"{name}: {100 * done // part.size} % of {part.size:,} bytes")
                    said = now
        os.replace(temporary, path)
        temporary.write_text(json.dumps(record | {"sha256": digest.hexdigest(), "answers": answers()}))
        os.replace(temporary, answers_file(path))
    progress(f"{name}: {part.docs:,} rows in {time.monotonic() - started:.1f} s")
    return path


@contextlib.contextmanager
def part_of(path: Path, size: int, name: str) -> Iterator[Path]:
    """A temporary path beside ``path``, to be written and renamed; what is left of it at the end is removed.

    Parts that killed processes left are removed first.

    :param size: bytes to be written.
    :param name: of what is written, in messages.
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
        yield part
    except OSError as e:
        why = "disk full" if e.errno == errno.ENOSPC else e.strerror
        raise CorpusError(f"cannot write {name} to [{path.parent}]: {why}") from e
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
