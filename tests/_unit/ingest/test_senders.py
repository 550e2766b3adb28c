"""What the clients of ingest-decomp that are not ours send, and what they make of answers."""

import asyncio
import http.server
import itertools
import json
import ssl
import threading
from types import SimpleNamespace

import elasticsearch
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
from esrally import exceptions
from esrally.client import EsClientFactory

from _tools.elasticsearch.security import create
from cluster_metrics.ingest import ingest_decomp
from cluster_metrics.ingest.cell import INDEX
from cluster_metrics.ingest.ingest_decomp import send_by_rally, send_by_requests


@pytest.fixture
def answered():
    """Sends a body to a server that answers as it is told, or to none.

    :param send: by which, requests unless told otherwise.
    :param secured: key and certificate of the server, or None, and client options.
    :param late: whether it answers once nobody waits any more.
    """

    def answered(status=0, body=b"", secured=None, send=send_by_requests, late=False):
        asked, gone = answered.asked, threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                asked.append(self.headers)
                if late:
                    gone.wait(1)
                self.send_response(status)
                self.send_header("x-elastic-product", "Elasticsearch")
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_PUT = do_POST

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
            if secured and secured[0]:
                server.socket = secured[0].wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            port = server.server_port
            if not status:
                server.shutdown()
                server.server_close()
            options = secured[1] if secured else {}
            es = EsClientFactory([{"host": "127.0.0.1", "port": port}], dict(options)).create_async(client_id=0)

            async def sent():
                try:
                    return await send(es, INDEX, b"{}\n{}\n" * 2, 2)
                finally:
                    await es.close()

            with es.new_request_context():
                try:
                    return asyncio.run(sent())
                finally:
                    gone.set()
                    if status:
                        server.shutdown()

    answered.asked = []
    return answered


TAKEN = json.dumps({"took": 7, "errors": False, "items": []}).encode()


def test_requests_goes_through_no_proxy_of_the_environment(answered, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert answered(200, TAKEN).acknowledged == 2


def test_requests_sends_the_password_of_the_client(answered):
    answered(200, TAKEN, (None, {"basic_auth_user": "elastic", "basic_auth_password": "x"}))
    assert [headers["authorization"] for headers in answered.asked] == ["Basic ZWxhc3RpYzp4"]
    assert answered.asked[0]["content-type"] == "application/x-ndjson"


def test_requests_waits_for_no_longer_than_it_says(answered, monkeypatch):
    monkeypatch.setattr(ingest_decomp, "TIMEOUT_S", 0.05)
    with pytest.raises(elasticsearch.ConnectionError, match="timed out"):
        answered(200, TAKEN, late=True)


def test_requests_trusts_what_the_client_trusts(answered, tmp_path):
    security = create(tmp_path, "target", "127.0.0.1")
    key, certificate, _ = pkcs12.load_key_and_certificates(security.keystore, security.keystore_password.encode())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "own.pem").write_bytes(pem + certificate.public_bytes(Encoding.PEM))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "own.pem")
    trusting = {"use_ssl": True, "verify_certs": True, "ca_certs": str(security.certificate)}
    assert answered(200, TAKEN, (context, trusting)).acknowledged == 2
    with pytest.raises(elasticsearch.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        answered(200, TAKEN, (context, {"use_ssl": True, "verify_certs": True}))


def test_requests_counts_what_the_target_took(answered):
    items = [{"index": {"status": 201}}, {"index": {"status": 400, "error": {"type": "a_type"}}}]
    body = json.dumps({"took": 7, "errors": True, "items": items}).encode()
    counts = answered(200, body)
    assert (counts.sent, counts.acknowledged, counts.requests, counts.took_ms) == (2, 1, 1, 7)
    assert (counts.bytes_out, counts.bytes_in) == (12, len(body))
    assert "a_type" in counts.problem()


def test_what_the_target_refuses_as_a_whole_ends_the_race(answered):
    with pytest.raises(exceptions.RallyAssertionError, match="was refused: 413 too large"):
        answered(413, b"too large")


def test_a_target_out_of_reach_loses_the_cell(answered):
    with pytest.raises(elasticsearch.ConnectionError, match="caused by"):
        answered()


@pytest.mark.parametrize("send, send_ms", [(send_by_requests, 1000), (send_by_rally, 2000)])
def test_what_others_send_is_counted_and_parsing_is_no_part_of_sending(answered, monkeypatch, send, send_ms):
    error = {"type": "a_type", "reason": "no number"}
    items = [{"index": {"status": 201}}, {"index": {"status": 400, "error": error}}]
    body = json.dumps({"took": 7, "errors": True, "items": items}).encode()
    clock = SimpleNamespace(perf_counter=itertools.count(7).__next__)
    monkeypatch.setattr(ingest_decomp, "time", clock)
    counts = answered(200, body, send=send)
    assert (counts.parse_ms, counts.send_ms) == (1000, send_ms)
    assert (counts.sent, counts.acknowledged, counts.requests, counts.took_ms) == (2, 1, 1, 7)
    assert (counts.bytes_out, counts.bytes_in) == (12, len(body))
    assert counts.problem().startswith("1 of 2 documents rejected: 1 by ") and "no number" in counts.problem()
