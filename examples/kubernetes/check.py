#!/usr/bin/env python3
"""Checks the manifests: their schemas, that they name each other right, and that scale.yaml finds the length of a real queue.

    pip install kubernetes-validate cloudcoil-models-keda gjson
    examples/kubernetes/check.py [HISTEQD]

Needs nats-server too.
"""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import gjson
import kubernetes_validate
import yaml
from cloudcoil.models.keda.v1alpha1 import ScaledObject

FOLDER = Path(__file__).resolve().parent
INBOX = FOLDER.parent / "inbox"


def manifest(name):
    return yaml.safe_load((FOLDER / name).read_text())


def check_schemas(job, worker, scale):
    for built_in in (job, worker):
        kubernetes_validate.validate(built_in, kubernetes_validate.latest_version(), strict=True)
    # What the schema does not have is left out of what it returns.
    known = ScaledObject.model_validate(scale).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert known == scale, f"scale.yaml has keys that KEDA does not know: {known}"


def check_names(job, worker, scale):
    """Checks what one place says and another has to repeat."""
    environment = {entry["name"]: entry["value"] for entry in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert environment["JOB_COMPLETIONS"] == str(job["spec"]["completions"])
    assert scale["spec"]["scaleTargetRef"]["name"] == worker["metadata"]["name"]


class Server:
    """A NATS server on loopback."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        command = ["nats-server", "--jetstream", "--store_dir", self.folder.name, "--addr", "127.0.0.1"]
        command += ["--port", "-1", "--http_port", "-1", "--ports_file_dir", self.folder.name]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        for _ in range(100):
            for told in Path(self.folder.name).glob("*.ports"):
                ports = json.loads(told.read_text())
                self.address, self.monitoring = ports["nats"][0], ports["monitoring"][0]
                return self
            time.sleep(0.1)
        raise SystemExit("nats-server does not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


def check_scaling(histeqd, worker, scale):
    """Asks a server for the length of a queue as KEDA does, while it is filled and emptied."""
    arguments = worker["spec"]["template"]["spec"]["containers"][0]["args"]
    name = urlsplit(arguments[arguments.index("--queue") + 1]).path
    trigger = scale["spec"]["triggers"][0]["metadata"]
    url = urlsplit(trigger["url"])
    with Server() as server, tempfile.TemporaryDirectory() as out:
        queue = server.address + name

        def length():
            with urllib.request.urlopen(f"{server.monitoring}{url.path}?{url.query}") as answer:
                return gjson.get(json.load(answer), trigger["valueLocation"])

        def run(*command):
            return subprocess.run([histeqd, *command, "--queue", queue], check=True, capture_output=True, text=True).stdout

        run("submit", INBOX, "--out", out)
        waiting = json.loads(run("status", "--json"))["waiting"]
        assert length() == waiting > 0, f"KEDA would see {length()} of {waiting} messages"
        run("work", "--root", INBOX, "--root", out, "--until-empty")
        assert length() == 0, f"KEDA would see {length()} messages in an empty queue"


def main():
    histeqd = sys.argv[1] if len(sys.argv) > 1 else FOLDER.parents[1] / "target/release/histeqd"
    job, worker, scale = (manifest(name) for name in ("job.yaml", "worker.yaml", "scale.yaml"))
    check_schemas(job, worker, scale)
    check_names(job, worker, scale)
    check_scaling(histeqd, worker, scale)
    print("the manifests are valid, and KEDA would see the queue's length")


main()
