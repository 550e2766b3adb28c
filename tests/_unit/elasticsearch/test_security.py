"""What nodes and clients of a secured cluster are given."""

import base64
import hashlib
import json
import ssl
import stat
import subprocess

import pytest

from _tools.elasticsearch.security import Security, create, write_private


@pytest.fixture
def secure(tmp_path):
    return Security(b"the keystore", tmp_path / "x.pem", "a password", "of the keystore")


def test_a_node_is_given_its_keystore_and_one_user_who_may_do_all(secure, tmp_path):
    secure.write(tmp_path / "config")
    found = {file.name: file.read_bytes() for file in (tmp_path / "config").iterdir()}
    assert found.keys() == {"http.p12", "users", "users_roles"}
    assert found["http.p12"] == b"the keystore" and found["users_roles"] == b"superuser:rally\n"
    user, _, stored = found["users"].decode().rstrip("\n").partition(":{PBKDF2}")
    iterations, salt, digest = stored.split("$")
    salt, digest = base64.b64decode(salt), base64.b64decode(digest)
    assert (user, iterations, len(salt), len(digest)) == ("rally", "10000", 32, 32)
    assert digest == hashlib.pbkdf2_hmac("sha512", b"a password", salt, 10_000, 32)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in (tmp_path / "config").iterdir())


def test_a_client_is_given_the_certificate_and_the_user(secure, tmp_path):
    assert json.loads(secure.client_options()) == {
        "default": {
            "use_ssl": True,
            "verify_certs": True,
            "ca_certs": str(tmp_path / "x.pem"),
            "basic_auth_user": "rally",
            "basic_auth_password": "a password",
        }
    }


def test_settings_have_tls_with_that_keystore(secure):
    assert secure.settings() == {
        "xpack.security.enabled": "true",
        "xpack.security.http.ssl.enabled": "true",
        "xpack.security.http.ssl.keystore.path": "http.p12",
        "xpack.security.http.ssl.keystore.password": "of the keystore",
    }


def test_a_private_file_is_made_anew_whoever_could_read_what_was_there(tmp_path):
    file, elsewhere = tmp_path / "of" / "mine", tmp_path / "elsewhere"
    write_private(file, b"first")
    file.chmod(0o644)
    with open(file, "rb") as opened_before:
        write_private(file, b"second")
        assert opened_before.read() == b"first"
    assert file.read_bytes() == b"second" and stat.S_IMODE(file.stat().st_mode) == 0o600
    elsewhere.write_bytes(b"of somebody")
    file.unlink()
    file.symlink_to(elsewhere)
    write_private(file, b"third")
    assert elsewhere.read_bytes() == b"of somebody" and not file.is_symlink()


def test_a_cluster_gets_a_certificate_for_its_host_and_leaves_no_key_whatever_a_killed_one_left(tmp_path, monkeypatch):
    for left in ("x.p12", "x.pem"):
        (tmp_path / left).write_bytes(b"of a start that was killed")
    umasks, commands, passwords, run = set(), [], set(), subprocess.run

    def noted(command, umask, env, **options):
        umasks.add(umask)
        commands.append(command)
        passwords.add(env["STOREPASS"])
        return run(command, umask=umask, env=env, **options)

    monkeypatch.setattr(subprocess, "run", noted)
    made = create(tmp_path, "x", "127.0.0.9")
    assert umasks == {0o077}, "the key is nobody else's while it is there"
    assert list(tmp_path.iterdir()) == [made.certificate] == [tmp_path / "x.pem"]
    assert made.certificate.stat().st_mode & 0o077 == 0o044
    signed = ssl.PEM_cert_to_DER_cert(made.certificate.read_text())
    assert bytes([127, 0, 0, 9]) in signed and b"localhost" in signed
    assert made.keystore and made.password != made.keystore_password
    assert passwords == {made.keystore_password}, "who lists processes does not see it"
    assert not any(made.keystore_password in word for command in commands for word in command)
    assert commands[0][commands[0].index("-validity") + 1] == "365"
