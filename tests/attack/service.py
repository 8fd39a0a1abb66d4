"""A service: pictures that arrive while it is killed and started, and requests that nobody should send."""

import contextlib
import random
import socket
import threading
import time
from pathlib import Path

import pictures
from place import LIMITS, SETTINGS, Broken, Place, wait_for

PATHS = ["/", "/status", "/failures", "/activity", "/metrics", "/retry", "/pause", "/resume", "/pictures/1/before.png"]
MISUSES = ["GET {} HTTP/1.1\r\nHost: evil.example", "GET {} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site"]


def answer(port: int, request: bytes) -> bytes:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 2) as stream:
        stream.sendall(request)
        stream.shutdown(socket.SHUT_WR)
        return stream.recv(200)
    return b""


def request(chance: random.Random) -> tuple[bytes, bool]:
    """Returns a request, and whether it must be refused."""
    path = chance.choice(PATHS)
    match chance.randrange(4):
        case 0:
            body = b"*" * chance.choice([1, 1001, 900_000])
            head = f"POST {chance.choice(PATHS[5:8])} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            return head.encode() + body, True
        case 1:
            words = chance.choice(MISUSES).format(chance.choice(PATHS[1:4]))
            return f"{words}\r\n\r\n".encode(), True
        case 2:
            return f"GET {path} HTTP/1.1\r\n{'X: ' + 'y' * 200_000}\r\n\r\n".encode(), False
        case _:
            whole = bytearray(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            whole[chance.randrange(len(whole))] = chance.randrange(256)
            return bytes(whole), False


class Requests(threading.Thread):
    """Asks what must be refused, again and again."""

    def __init__(self, place: Place, port: int):
        super().__init__()
        self.place, self.port, self.chance = place, port, random.Random(place.chance.random())
        self.over, self.granted = threading.Event(), []

    def run(self):
        while not self.over.wait(0.005):
            asked, is_misuse = request(self.chance)
            got = answer(self.port, asked)
            self.place.counts["crafted requests that were answered"] += bool(got)
            if is_misuse and got.startswith((b"HTTP/1.1 2", b"HTTP/1.1 3")):
                self.granted.append((asked[:100], got[:100]))


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def arrive(place: Place, name: str, content: bytes):
    """Puts a picture into the inbox: by a rename, or written in pieces."""
    file = place.root / "in" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if place.chance.randrange(2):
        outside = place.root / "arriving"
        outside.write_bytes(content)
        outside.rename(file)
        return
    with file.open("wb", buffering=0) as written:
        for at in range(0, len(content), len(content) // 3 + 1):
            written.write(content[at : at + len(content) // 3 + 1])
            time.sleep(place.chance.random() * 0.02)


def give_back(place: Place, failed: set[str]):
    """Moves back what failed because it was in progress at three kills in a row."""
    for reason in (place.root / "failed").rglob("*.reason.txt"):
        name = str(reason.relative_to(place.root / "failed")).removesuffix(".reason.txt")
        if name not in failed and "killed 3 times in a row" in reason.read_text():
            reason.unlink()
            (place.root / "failed" / name).rename(place.root / "in" / name)
            place.counts["given up after three kills, and given back"] += 1


def attack(place: Place):
    """Kills a service at random moments while pictures arrive."""
    chance = place.chance
    settings, after = chance.choice(SETTINGS).split(), chance.choice(["keep", "delete", "move:archive"])
    inputs = pictures.some(chance, 80)
    place.fill("all", inputs)
    expected, failed = place.reference(settings, "all")
    (place.root / "in").mkdir()
    port = free_port()
    arguments = ["--watch", "in", "--out", "out", "--after", after, "--failed", "failed", *LIMITS, *settings]
    arguments += ["--listen", f"127.0.0.1:{port}", "--durability", chance.choice(["full", "fast"])]
    requests = Requests(place, port)
    requests.start()
    left = list(inputs.items())
    while left:
        process = place.start([*arguments, "--devices", chance.choice(["cpu", "cpu-workers:1"])])
        for _ in range(chance.randrange(3, 15)):
            if left:
                arrive(place, *left.pop())
        time.sleep(chance.random())
        place.strike(process)
        place.expect_no_other(place.files("out"), [expected])
    process = place.start([*arguments, "--devices", "cpu"])

    def is_done() -> bool:
        give_back(place, failed)
        return len(place.files("out")) >= len(expected)

    wait_for("all outputs", is_done)
    wait_for(f"the failed ones, {failed}", lambda: place.files("failed").keys() >= failed)
    if after != "keep":
        wait_for("an empty inbox", lambda: not set(place.files("in")) & inputs.keys())
    requests.over.set()
    requests.join()
    process.terminate()
    if process.wait(60) != 0:
        raise Broken(f"the service ends with {process.returncode}")
    if requests.granted:
        raise Broken(f"granted: {requests.granted}")
    place.expect_all(place.files("out"), expected)
    expect_inputs(place, inputs, expected, failed, after)


def expect_inputs(place: Place, inputs: dict, expected: dict, failed: set, after: str):
    """Expects each input where it belongs, as it came."""
    kept = {"keep": place.files("in"), "move:archive": place.files("archive")}.get(after)
    for name, content in inputs.items():
        if name in failed:
            if place.files("failed").get(name) != content:
                raise Broken(f"{name} failed, and is not in the folder for that")
            if not (place.root / "failed" / f"{name}.reason.txt").exists():
                raise Broken(f"no reason for {name}")
        elif kept is not None and kept.get(name) != content:
            raise Broken(f"{name} is lost")
    hidden = [file for file in Path(place.root / "in").rglob(".histeqd*") if file.is_file()]
    if hidden:
        raise Broken(f"left in the inbox: {hidden}")
