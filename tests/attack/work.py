"""Workers of a queue, and its server: killed, paused, and sent messages that nobody should send."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time

import pictures
from place import LIMITS, SETTINGS, Broken, Place, wait_for
from service import free_port

PROGRAM = os.environ.get("HISTEQD_NATS_SERVER") or shutil.which("nats-server")


class Server:
    def __init__(self, place: Place):
        self.place, self.port = place, free_port()
        self.start()

    def start(self):
        with (self.place.root / "server.log").open("ab") as log:
            words = [PROGRAM, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.place.root / "streams")]
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        wait_for("the queue's server", lambda: self.publish("none", b""))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def publish(self, subject: str, payload: bytes) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 2) as stream:
            words = b'CONNECT {"verbose":false}\r\nPUB %s %d\r\n%s\r\nPING\r\n' % (subject.encode(), len(payload), payload)
            stream.sendall(words)
            got = b"begun"
            while b"PONG" not in got and got:
                got = stream.recv(65536)
            return bool(got)
        return False


def messages(place: Place) -> list[bytes]:
    """Returns messages about files that they should not touch, and mutants of an honest one."""

    def at(name: str) -> str:
        return str(place.root / name)

    pairs = [
        (at("secret/a.pgm"), at("root/out/x.pgm")),
        (at("root/in/link.pgm"), at("root/out/y.pgm")),
        (at("root/in/0.pgm"), at("secret/a.pgm")),
        (at("root/in/0.pgm"), at("root/in/0.pgm")),
        (at("root/in/0.pgm"), at("root/../secret/b.pgm")),
        (at("root/in/0.pgm"), at("root/way/b.pgm")),
        (at("root/in/0.pgm"), at("root/notes.txt")),
        (at("root/in/0.pgm"), at("root/.histeqd/ledger.sqlite")),
        (at("root/in/0.pgm"), "s3://bucket/x.pgm"),
    ]
    settings = ["overwrite = true\n", "", "method = 'match'\nreference = '%s'\n" % at("secret/a.pgm"), "state = '/tmp'"]
    crafted = [
        {"version": 1, "settings": place.chance.choice(settings), "pictures": [{"input": source, "output": target}]}
        for source, target in pairs
    ]
    crafted.append({**crafted[0], "pictures": crafted[0]["pictures"] * 2000})
    honest = {"version": 1, "settings": "", "pictures": [{"input": at("root/in/0.pgm"), "output": at("root/out/0.pgm")}]}
    mutants = [pictures.mutant(place.chance, json.dumps(honest).encode()) for _ in range(30)]
    return [json.dumps(one).encode() for one in crafted] + mutants


def attack(place: Place):
    """Kills and pauses workers and their server while messages come, of which some are crafted."""
    chance = place.chance
    settings = chance.choice(SETTINGS).split()
    inputs = {name: content for name, content in pictures.some(chance, 80).items() if not name.startswith("0.")}
    inputs["0.pgm"] = pictures.whole(chance)
    place.fill("root/in", inputs)
    expected, failed = place.reference(settings, "root/in")
    place.fill("secret", {"a.pgm": b"P5 2 1 255\nab"})
    (place.root / "root/notes.txt").write_text("text")
    (place.root / "root/in/link.pgm").symlink_to("../../secret/a.pgm")
    (place.root / "root/way").symlink_to("../secret")
    server = Server(place)
    place.processes.append(server.process)
    queue = ["--queue", f"nats://127.0.0.1:{server.port}/attack"]
    submit = ["submit", "root/in", "--out", "root/out", "--links", "never", *queue, *settings, "--no-config"]
    place.run([*submit, "--lease", "2s"])
    work = ["work", *queue, "--root", str(place.root / "root"), *LIMITS]
    for _ in range(chance.randrange(3, 8)):
        devices = [chance.choice(["cpu", "cpu-workers:1"]) for _ in range(2)]
        workers = [place.start([*work, "--attempts", "50", "--devices", kind]) for kind in devices]
        for payload in messages(place):
            server.publish(f"histeqd.attack.work.{chance.randrange(1 << 60)}", payload)
            place.counts["crafted messages"] += 1
        time.sleep(chance.random() * 2)
        match chance.randrange(3):
            case 0:
                server.kill()
                place.counts["kills of the queue's server"] += 1
                time.sleep(chance.random())
                server.start()
                place.processes.append(server.process)
            case 1:
                workers[0].send_signal(signal.SIGSTOP)
                time.sleep(2.5)
                workers[0].send_signal(signal.SIGCONT)
                place.counts["workers paused past their lease"] += 1
        for worker in workers:
            place.strike(worker)
    # A server that was killed may have forgotten a message; a crafted one may have had an output made of another input; and what was in
    # progress at many kills is put aside, until it is submitted again.
    for _ in range(5):
        place.run(submit)
        place.run([*work, "--attempts", "3", "--devices", "cpu", "--until-empty"])
        if expected.items() <= place.files("root/out").items():
            break
    found = place.files("root/out")
    place.expect_all({name: content for name, content in found.items() if name in expected}, expected)
    told = json.loads(place.run(["status", *queue, "--json"]).stdout)["dead"]
    reasons = {picture["input"] for letter in told for picture in (letter["message"] or {"pictures": []})["pictures"]}
    if lost := {name for name in failed if str(place.root / "root/in" / name) not in reasons}:
        raise Broken(f"not told as failed: {lost}")
    if place.files("root/in") != inputs or place.files("secret") != {"a.pgm": b"P5 2 1 255\nab"}:
        raise Broken("a crafted message reached an input, or what lies outside the root")
    if (place.root / "root/notes.txt").read_text() != "text":
        raise Broken("a crafted message replaced a text")
