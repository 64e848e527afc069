"""Makes an authority for one test and a certificate for the loopback names, with openssl(1)."""

import os
import shutil
import ssl
import subprocess

NAMES = "subjectAltName=IP:127.0.0.1,IP:127.0.0.2,DNS:localhost"


class Tls:
    """`context` is for listeners, and `ca_file` for clients (SSL_CERT_FILE). `directory` is the caller's."""

    def __init__(self, directory, names=NAMES):
        self.ca_file = os.path.join(directory, "ca.pem")
        key, certificate = (os.path.join(directory, name) for name in ("key.pem", "certificate.pem"))
        authority_key, asked = (os.path.join(directory, name) for name in ("ca-key.pem", "asked.pem"))
        extensions = os.path.join(directory, "extensions")
        with open(extensions, "w", encoding="ascii") as file:
            file.write(names + "\n")
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        run("req", "-x509", *curve, "-keyout", authority_key, "-out", self.ca_file, "-subj", "/CN=hub of a test",
            "-days", "2", "-addext", "keyUsage=critical,keyCertSign")  # Python 3.13 asks for it
        run("req", "-new", *curve, "-keyout", key, "-out", asked, "-subj", "/CN=localhost")
        run("x509", "-req", "-in", asked, "-CA", self.ca_file, "-CAkey", authority_key, "-CAcreateserial", "-days", "2",
            "-extfile", extensions, "-out", certificate)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)


def run(*words):
    program = shutil.which("openssl")
    if program is None:
        raise FileNotFoundError("openssl is not installed")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {words[0]} failed: {done.stderr}")
