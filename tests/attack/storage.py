"""Runs from and to object storage, and its server: killed and paused, and two runs with other settings at once."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pictures
from place import LIMITS, SETTINGS, Broken, Place, wait_for
from service import free_port

PROGRAM = os.environ.get("HISTEQD_WEED") or shutil.which("weed")
KEY, SECRET = "the-key", "the-secret-of-the-attack"


class Server:
    """SeaweedFS with one bucket, whose files its filer lists and takes too."""

    def __init__(self, place: Place):
        self.place = place
        roles = ["master", "volume", "filer", "s3"]
        ports = {role: free_port() for role in [*roles, *(f"{role}.port.grpc" for role in roles)]}
        self.filer, self.s3 = ports["filer"], ports["s3"]
        identity = {"name": "a", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
        folder = place.root / "weed"
        folder.mkdir()
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        self.words = [PROGRAM, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", f"-dir={folder}"]
        self.words += [f"-s3.config={folder}/s3.json", "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=100"]
        self.words += [f"-{role if '.' in role else role + '.port'}={port}" for role, port in ports.items()]
        place.environment |= {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.s3}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }
        self.start()

    def start(self):
        with (self.place.root / "weed.log").open("ab") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log)
        self.place.processes.append(self.process)
        wait_for("the storage", self.answers)

    def answers(self) -> bool:
        """Whether it takes files, which also makes the bucket."""
        with contextlib.suppress(OSError):
            self.put("ready", b"ready")
            urllib.request.urlopen(f"http://127.0.0.1:{self.s3}/status", timeout=2).close()
            return True
        return False

    def ask(self, path: str, method: str, body: bytes | None = None) -> bytes:
        url = f"http://127.0.0.1:{self.filer}/buckets/attack{urllib.parse.quote(path)}"
        asked = urllib.request.Request(url, body, {"Accept": "application/json"}, method=method)
        with urllib.request.urlopen(asked, timeout=30) as got:
            return got.read()

    def put(self, name: str, content: bytes):
        self.ask(f"/{name}", "PUT", content)

    def files(self, folder: str) -> dict[str, bytes]:
        """Returns the objects below a folder."""
        found = {}
        try:
            listed = json.loads(self.ask(f"/{folder}/", "GET")) or {}
        except urllib.error.HTTPError:
            return {}
        for entry in listed.get("Entries") or []:
            name = entry["FullPath"].removeprefix("/buckets/attack/")
            if entry["Mode"] & (1 << 31):
                found |= {f"{name.rpartition('/')[2]}/{below}": one for below, one in self.files(name).items()}
            else:
                found[name.rpartition("/")[2]] = self.ask(f"/{name}", "GET")
        return found


def attack(place: Place):
    """Kills runs and the server, with two runs with other settings into one folder at times."""
    chance = place.chance
    settings, others = (words.split() for words in chance.sample(SETTINGS[:2] + SETTINGS[3:], 2))
    inputs = pictures.some(chance, 40)
    place.fill("in", inputs)
    expected, failed = place.reference(settings)
    of_others, _ = place.reference(others)
    server = Server(place)
    for name, content in inputs.items():
        server.put(f"in/{name}", content)
    arguments = ["s3://attack/in", "--out", "s3://attack/out", "--devices", "cpu", *LIMITS]
    for _ in range(chance.randrange(3, 7)):
        runs = [place.start([*arguments, *words]) for words in (settings, others)[: chance.randrange(1, 3)]]
        place.counts["two runs into one prefix"] += len(runs) - 1
        time.sleep(chance.random() * 3)
        if chance.randrange(3) == 0:
            server.process.send_signal(chance.choice([signal.SIGKILL, signal.SIGSTOP]))
            place.counts["blows to the storage's server"] += 1
            time.sleep(chance.random() * 3)
            server.process.send_signal(signal.SIGCONT)
            if server.process.poll() is not None:
                server.start()
        for run in runs:
            place.strike(run)
        place.expect_no_other(server.files("out"), [expected, of_others])
    if server.files("in") != inputs:
        place.counts["rounds whose inputs the storage lost"] += 1
        return
    ended = json.loads(place.run([*arguments, *settings, "--json"]).stdout)
    told = {failure["input"].removeprefix("s3://attack/in/") for failure in ended["failed"]}
    if told != failed:
        raise Broken(f"told as failed: {sorted(told ^ failed)}: {ended}")
    place.expect_all(server.files("out"), expected)
