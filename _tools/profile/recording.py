"""Reads the samples of recordings by Java's own ``jdk.jfr.consumer`` and keeps them in one file."""

import subprocess
import tempfile
import zipfile
from pathlib import Path

from ..elasticsearch.install import ECJ, JRE_HOME, InstallError, compile_java, fetch
from ..report.flames import D3 as D3_FILE
from ..report.stacks import write_stacks

SOURCE = Path(__file__).with_name("Samples.java")
HEAP = "512m"
D3 = "org.webjars.npm:d3:7.9.0"
D3_PLACE = "META-INF/resources/webjars/d3/7.9.0/dist/d3.min.js"


def prepare(downloads: Path) -> None:
    """Fetches what :func:`convert` takes, while there may be time to do something about it.

    :raises InstallError: see :func:`..elasticsearch.install.fetch`.
    """
    for coordinates in (ECJ, D3):
        fetch(coordinates, downloads)


def convert(folder: Path, downloads: Path) -> str:
    """Writes the samples of all recordings of a folder to its file of stacks, and removes the recordings; beside it
    it puts what flame graphs are drawn with.

    :param downloads: folder for what is fetched from the Java registry.
    :return: why that was not possible; empty if it was.
    """
    recordings = sorted(folder.glob("*.jfr"))
    if not recordings:
        return ""
    try:
        with tempfile.TemporaryDirectory() as classes:
            with zipfile.ZipFile(fetch(D3, downloads)) as z:
                (folder / D3_FILE).write_bytes(z.read(D3_PLACE))
            compile_java([SOURCE], [], Path(classes), fetch(ECJ, downloads))
            command = [str(JRE_HOME / "bin" / "java"), f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-cp", classes, SOURCE.stem]
            done = subprocess.run([*command, *map(str, recordings)], capture_output=True, text=True, check=False)
            if done.returncode:
                said = done.stderr.strip().splitlines() or [f"Java ended with {done.returncode}"]
                return f"the recordings in [{folder}] were not read: {said[-1]}"
        write_stacks(folder, done.stdout)
    except (InstallError, OSError) as e:
        return f"the recordings in [{folder}] were not read: {e}"
    for recording in recordings:
        recording.unlink()
    return ""
