import http.server
import threading

import pytest
from maven_artifact.downloader import Downloader

from _tools.elasticsearch.install import ECJ, ESQL_MODULES, InstallError, esql_versions, fetch, known_checksums


@pytest.fixture
def registry():
    """A registry on loopback that answers every path with the same few bytes, or 404 for versions that end in 404."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404 if "404" in self.path else 200)
            self.end_headers()
            self.wfile.write(b"not what was asked for")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Downloader(base=f"http://127.0.0.1:{server.server_port}")
    server.shutdown()


@pytest.mark.parametrize("coordinates", [ECJ, "org.example:not-pinned:1.0"])
def test_a_checksum_that_differs_keeps_nothing(tmp_path, registry, coordinates):
    with pytest.raises(InstallError, match="does not have the expected checksum"):
        fetch(coordinates, tmp_path, registry)
    assert not list(tmp_path.iterdir())


def test_an_artefact_that_is_not_there(tmp_path, registry):
    with pytest.raises(InstallError, match=r"^the Java registry has no org.example:thing:1.404$"):
        fetch("org.example:thing:1.404", tmp_path, registry)


def test_a_registry_out_of_reach(tmp_path):
    with pytest.raises(InstallError, match="the Java registry is out of reach"):
        fetch(ECJ, tmp_path, Downloader(base="http://127.0.0.1:9"))


def test_a_download_that_was_damaged_later_is_fetched_again(tmp_path, registry):
    path = tmp_path / ECJ.replace(":", "_")
    path.write_bytes(b"damaged")
    with pytest.raises(InstallError, match="checksum"):
        fetch(ECJ, tmp_path, registry)
    assert not path.exists()


def test_versions_named_in_the_readme_are_pinned():
    versions = {c.rsplit(":", 1)[1] for c in known_checksums() if ":elasticsearch:zip:" in c}
    assert versions == {"8.16.0", "8.17.2", "8.19.4"}


def test_the_jars_of_esql_are_pinned_for_the_versions_that_have_it():
    jars = [jar for _, _, of_module in ESQL_MODULES.values() for jar in of_module]
    versions = esql_versions()
    assert versions == ["8.16.0", "8.19.4"]
    assert {jar.format(version=v) for jar in jars for v in versions} <= set(known_checksums())
