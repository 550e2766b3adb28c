"""What a user without rights may put in the way of root, and whether root fell for it."""

import contextlib
import multiprocessing
import os
import pwd
from pathlib import Path

from _tools.elasticsearch import folders

NAMES = ("config", "logs", "tmp", "data", "stdout.log", ".rally", "rally.ini", "logging.json", "team", "distributions")
NAMES += ("benchmarks", "races", "elasticsearch.yml", "users", "jvm.options", "elasticsearch-8.0.0.tar.gz", "track")
"""What the launcher and ``make offline`` write, by name."""


def make_decoy(decoy):
    """A folder of root's with files and folders by all these names."""
    for folder in (decoy, decoy / "logs", decoy / ".rally", decoy / "distributions"):
        folder.mkdir()
        for name in {*NAMES, "secret"} - {"logs", ".rally", "distributions"}:
            (folder / name).write_text("root's own")
            (folder / name).chmod(0o600)
    return decoy


def state(folder):
    found = {}
    for path in [folder, *folder.rglob("*")]:
        s = path.lstat()
        content = path.read_bytes() if path.is_file() else sorted(os.listdir(path))
        found[path] = (s.st_uid, s.st_gid, s.st_mode, s.st_nlink, s.st_mtime_ns, content)
    return found


def as_nobody(function, *arguments):
    """Calls a function in a process of the user nobody and returns what it returns."""

    def child(results):
        user = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
        results.put(function(*arguments))

    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=child, args=(results,))
    process.start()
    planted = results.get(timeout=60)
    process.join()
    return planted


def plant(root, decoy, only=None):
    """Puts links to the decoy in the place of all that this user can move, and where more could be written.

    :param only: this name alone.
    """
    planted = []
    for folder, names, files in list(os.walk(root, topdown=False)):
        if not os.access(folder, os.W_OK):
            continue
        for name in [only] if only else {*names, *files, *NAMES}:
            path = Path(folder) / name
            target = decoy / name if name in files or path.suffix or name == "users" else decoy
            with contextlib.suppress(OSError):
                if path.exists() or path.is_symlink():
                    path.rename(path.with_name(f"{name}.moved"))
                try:
                    os.link(target, path, follow_symlinks=False)  # where the kernel lets
                except OSError:
                    path.symlink_to(target)
                planted.append(str(path.relative_to(root)))
    return planted


def remove_outside(folder):
    """Removes what launchers below a folder that the user nobody cannot enter keep elsewhere."""
    for link in folder.rglob("elasticsearch"):
        if link.is_symlink():
            folders.remove(link.resolve())
