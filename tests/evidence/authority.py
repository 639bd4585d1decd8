"""A time-stamping authority (RFC 3161) on this machine, for which openssl stands."""

import subprocess
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.prerequisites import which

NEEDS_OPENSSL = pytest.mark.skipif(which("openssl") is None, reason="no openssl is installed")

CONFIG = """
[ts]
default_policy = 1.2.3.4
digests = sha256, sha512
signer_digest = sha256
ess_cert_id_alg = sha256
serial = serial
[root]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[tsa]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def authority(tmp_path: Path) -> Generator[str]:
    """The URL of an authority whose root is in `root.pem`."""
    (tmp_path / "ts.cnf").write_text(CONFIG)
    (tmp_path / "serial").write_text("01\n")
    new = ("req", "-newkey", "rsa:2048", "-nodes")
    openssl(tmp_path, *new, "-keyout", "ca.key", "-out", "ca.csr", "-subj", "/CN=r")
    openssl(
        tmp_path, "x509", "-req", "-in", "ca.csr", "-signkey", "ca.key", "-out", "root.pem",
        "-days", "2", "-extfile", "ts.cnf", "-extensions", "root",
    )  # fmt: skip
    openssl(tmp_path, *new, "-keyout", "tsa.key", "-out", "tsa.csr", "-subj", "/CN=tsa")
    openssl(
        tmp_path, "x509", "-req", "-in", "tsa.csr", "-CA", "root.pem", "-CAkey", "ca.key",
        "-CAcreateserial", "-out", "tsa.pem", "-days", "2", "-extfile", "ts.cnf",
        "-extensions", "tsa",
    )  # fmt: skip

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            (tmp_path / "query").write_bytes(self.rfile.read(size))
            openssl(
                tmp_path, "ts", "-reply", "-config", "ts.cnf", "-section", "ts", "-queryfile",
                "query", "-signer", "tsa.pem", "-inkey", "tsa.key",
                "-out", "reply",
            )  # fmt: skip
            answer = (tmp_path / "reply").read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()
