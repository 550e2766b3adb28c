"""Folders of nodes that root starts as another user, made so that root follows nothing which that user put there.

Root keeps each folder that it goes on writing to. The user gets leaves: made within those by root, filled while nobody
else can enter, then given away, with root writing there no more. What it does not keep is removed and made anew.
"""

import contextlib
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REAL = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
"""Opens a folder, but no link to one."""


class NodeError(Exception):
    """A node that cannot run; the message is for the person at the terminal."""


def unprivileged_user() -> dict[str, Any]:
    """Arguments for ``subprocess`` that make a child of root run as nobody; none for anybody else."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def can_run(command: list[str], run_as: dict[str, Any]) -> bool:
    """Whether a command succeeds as that user."""
    try:
        return subprocess.run(command, **run_as, cwd="/", capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def can_read(path: Path, run_as: dict[str, Any]) -> bool:
    return can_run(["ls", str(path)], run_as)


def check_out_of_reach(folder: Path, run_as: dict[str, Any]) -> None:
    """Whether the user can put nothing else in the place of a folder or of what it holds.

    :raises NodeError: naming the folder, or one that it lies in, which the user can change.
    """
    for place in (folder, *folder.parents) if run_as else ():
        status = place.stat()
        sticky = stat.S_ISVTX if place != folder else 0  # where all may write but only owners replace
        shared = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid == run_as["group"] else 0)
        if status.st_uid == run_as["user"] or status.st_mode & shared and not status.st_mode & sticky:
            raise NodeError(f"[{place}] can be changed by the user nobody; close it to others, or set WORK elsewhere")


@contextlib.contextmanager
def own(path: Path, run_as: dict[str, Any], given: bool = False) -> Iterator[int]:
    """Opens a folder that only the user of this process can change; it is made unless it is there.

    :param path: in a folder that the other user cannot change, or one that the person at the terminal named.
    :param given: whether it may have been given to the other user, and is taken back.
    :return: the descriptor, which leads to this folder whatever becomes of its path.
    :raises NodeError: when it is a link, no folder, or somebody else's.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(parents=True)
    with _opened(path) as folder:
        if run_as:
            if os.fstat(folder).st_uid not in (os.geteuid(), *([run_as["user"]] if given else [])):
                raise NodeError(f"[{path}] belongs to somebody else; remove it, or set WORK to another folder")
            os.fchown(folder, os.geteuid(), os.getegid())
            os.fchmod(folder, 0o755)
        yield folder


def leaf(parent: int, path: Path, run_as: dict[str, Any]) -> None:
    """Makes a folder of the other user, unless it is there; nothing in it is touched.

    :param parent: descriptor of the folder that it lies in, see :func:`own`.
    :raises NodeError: when it is a link, no folder, or somebody else's.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(path.name, 0o700, dir_fd=parent)
    with _opened(path, parent) as folder:
        owner = os.fstat(folder).st_uid
        if not run_as or owner == run_as["user"]:
            return
        if owner != os.geteuid() or os.listdir(folder):
            raise NodeError(f"[{path}] does not belong to the user nobody, as whom nodes run; give it to that user")
        os.fchown(folder, run_as["user"], run_as["group"])


@contextlib.contextmanager
def _opened(path: Path, parent: int | None = None) -> Iterator[int]:
    try:
        folder = os.open(path if parent is None else path.name, REAL, dir_fd=parent)
    except OSError:
        raise NodeError(f"[{path}] is a link or no folder; remove it") from None
    try:
        yield folder
    finally:
        os.close(folder)


def remove(path: Path) -> None:
    """Removes a file, a link, or a folder with all in it, if it is there; follows no link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def give(path: Path, run_as: dict[str, Any]) -> None:
    """Gives a file of ours away, or a folder that the other user could not enter until now, with all in it."""
    if run_as:
        for one in [*path.rglob("*"), path]:
            os.chown(one, run_as["user"], run_as["group"], follow_symlinks=False)


def open_to_all(folder: Path) -> None:
    """Lets everybody read what a folder of ours holds."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444))
