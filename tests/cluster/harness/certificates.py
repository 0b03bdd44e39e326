"""The cluster's own certificate authority, by openssl: one CA, a serving certificate, client certificates and kubeconfigs."""

import base64
import json
import pathlib
import subprocess


def _openssl(*argv):
    done = subprocess.run(["openssl", *map(str, argv)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {argv[0]} failed: {done.stderr.strip()}")


class Authority:
    """A CA in `folder`. Every certificate it makes lies there as <name>.crt and <name>.key."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self.certificate = self._folder / "ca.crt"
        self._key = self._folder / "ca.key"
        if not self.certificate.exists():
            _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650",
                     "-subj", "/CN=trainyard-test-ca", "-keyout", self._key, "-out", self.certificate)

    def path(self, name):
        return self._folder / name

    def key_pair(self, name):
        """A key without a certificate (service account tokens): <name>.key, <name>.pub."""
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.path(f"{name}.key"))
        _openssl("ec", "-in", self.path(f"{name}.key"), "-pubout", "-out", self.path(f"{name}.pub"))

    def issue(self, name, common_name, organization="", alternative_names=()):
        """A certificate for servers (with alternative names: "IP:…", "DNS:…") and clients. Returns (certificate, key)."""
        certificate, key, request = self.path(f"{name}.crt"), self.path(f"{name}.key"), self.path(f"{name}.csr")
        subject = (f"/O={organization}" if organization else "") + f"/CN={common_name}"
        extensions = self.path(f"{name}.ext")
        names = f"subjectAltName={','.join(alternative_names)}\n" if alternative_names else ""
        extensions.write_text(f"{names}extendedKeyUsage=serverAuth,clientAuth\n")
        _openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", subject, "-keyout", key, "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-days", "3650",
                 "-extfile", extensions, "-out", certificate)
        request.unlink()
        extensions.unlink()
        return certificate, key

    def kubeconfig(self, path, server, name, common_name, organization=""):
        """Writes a kubeconfig for a new client certificate and returns its path. (JSON is YAML.)"""
        certificate, key = self.issue(name, common_name, organization)

        def encoded(file):
            return base64.b64encode(file.read_bytes()).decode()

        pathlib.Path(path).write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority-data": encoded(self.certificate)}}],
            "users": [{"name": "test", "user": {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
        }, indent=1))
        return pathlib.Path(path)
