"""A place for one round: its folders, the programs that run in it, and what must hold of its outputs."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

MEMORY_MIB = 128
# What a process takes besides the pictures in progress: its code's data, threads, codecs' tables, the ledger.
BESIDES_MIB = 128
LIMITS = f"--memory {MEMORY_MIB}MiB --max-pixels 20MP --threads 2 --no-config".split()
SETTINGS = ["", "--method clahe", "--method stretch --format png", "--strength 0.5 --levels auto"]
LONG = 300


class Broken(Exception):
    """A promise that was broken."""


def resident(pid: int) -> int:
    """Returns the bytes of memory of a process that are its own or shared with its workers, without files."""
    total = 0
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                total += int(line.split()[1]) << 10
    return total


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        lists = (task / "children" for task in Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for one in lists for child in one.read_text().split()]
    return []


class Place:
    """A temporary folder, and the counts of the attack."""

    def __init__(self, program: str, chance: random.Random, counts: Counter):
        self.program, self.chance, self.counts = program, chance, counts
        self.root = Path(tempfile.mkdtemp(prefix="histeqd-attack-"))
        self.environment = dict(os.environ, XDG_CONFIG_HOME=str(self.root / "none"))
        self.processes: list[subprocess.Popen] = []
        self.stopped = threading.Event()
        self.watcher = threading.Thread(target=self.watch_memory)
        self.watcher.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, _value, _trace):
        self.stopped.set()
        self.watcher.join()
        for process in self.processes:
            process.kill()
            process.wait()
        if kind is None:
            shutil.rmtree(self.root)

    def watch_memory(self):
        while not self.stopped.wait(0.02):
            for process in [one for one in list(self.processes) if one.args[0] == self.program]:
                pids = [process.pid, *children(process.pid)] if process.poll() is None else []
                most = sum(map(resident, pids)) >> 20
                self.counts["most MiB of memory"] = max(self.counts["most MiB of memory"], most)

    def start(self, words: list[str]) -> subprocess.Popen:
        """Starts the program, with its words in the log."""
        self.counts["processes of histeqd"] += 1
        with (self.root / "log").open("ab") as log:
            process = subprocess.Popen(
                [self.program, *words], cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.processes.append(process)
        return process

    def run(self, words: list[str], accepted=(0, 1)) -> subprocess.CompletedProcess:
        """Runs the program to its end."""
        try:
            done = subprocess.run(
                [self.program, *words], cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=LONG
            )
        except subprocess.TimeoutExpired as why:
            raise Broken(f"{words} does not end: {(why.stderr or b'').decode()[-2000:]}") from why
        if done.returncode not in accepted:
            raise Broken(f"{words} exits with {done.returncode}: {done.stderr}")
        return done

    def strike(self, process: subprocess.Popen):
        """Ends a process, or one of its workers, by a signal that may come at any time, and waits for its end."""
        workers = children(process.pid)
        if workers and self.chance.randrange(2):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.chance.choice(workers), signal.SIGKILL)
                self.counts["kills of device workers"] += 1
            time.sleep(self.chance.random() * 0.3)
        number = self.chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        if process.poll() is None:
            process.send_signal(number)
            self.counts[f"{number.name} to histeqd"] += 1
        process.wait(LONG)
        self.processes.remove(process)

    def fill(self, folder: str, pictures: dict[str, bytes]):
        self.counts["pictures"] += len(pictures)
        for name, content in pictures.items():
            file = self.root / folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    def reference(self, settings: list[str], folder="in") -> tuple[dict[str, bytes], set[str]]:
        """Returns the outputs of an undisturbed run, and the names of the inputs that fail."""
        number = len(list(self.root.glob("reference*")))
        out = self.root / f"reference {number}"
        told = self.run([folder, "--out", str(out), "--json", "--devices", "cpu", *LIMITS, *settings])
        failed = {failure["input"].removeprefix(f"{folder}/") for failure in json.loads(told.stdout)["failed"]}
        if number == 0:
            self.counts["of these fail, and are told so"] += len(failed)
        return self.files(out), failed

    def files(self, folder: Path | str) -> dict[str, bytes]:
        """Returns the files below a folder but for histeqd's own."""
        root = self.root / folder
        files = (file for file in root.rglob("*") if not file.is_symlink() and file.is_file())
        named = ((str(file.relative_to(root)), file) for file in files)
        return {name: file.read_bytes() for name, file in named if ".histeqd" not in name}

    def expect_no_other(self, found: dict[str, bytes], allowed: list[dict[str, bytes]]):
        """Expects that each file is that of one of these sets of outputs, whole."""
        for name, content in found.items():
            if not any(outputs.get(name) == content for outputs in allowed):
                raise Broken(f"{name} has other bytes than an undisturbed run writes ({len(content)})")

    def expect_all(self, found: dict[str, bytes], expected: dict[str, bytes]):
        self.expect_no_other(found, [expected])
        if missing := expected.keys() - found.keys():
            raise Broken(f"lost: {sorted(missing)}")
        self.counts["outputs, all with the right bytes"] += len(found)


def wait_for(what: str, is_so, seconds=LONG):
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise Broken(f"waited in vain for {what}")
        time.sleep(0.05)
