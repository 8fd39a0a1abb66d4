"""The pictures of an attack: whole ones, and mutants of those that the tests have."""

import random
import struct
from pathlib import Path

DATA = Path(__file__).parent.parent / "data"
LONGEST = 120_000
NOT_PICTURES = {"", ".md", ".py", ".txt", ".tsv", ".pem", ".json"}


def sources() -> list[Path]:
    files = (file for file in sorted(DATA.rglob("*")) if file.is_file())
    return [file for file in files if file.suffix not in NOT_PICTURES and file.stat().st_size <= LONGEST]


def whole(chance: random.Random) -> bytes:
    """Returns a gray picture of few levels, large enough to be interrupted."""
    longest = 900 if chance.randrange(10) else 4000
    width, height = chance.randrange(200, longest), chance.randrange(200, longest)
    samples = bytes(100 + byte % 50 for byte in chance.randbytes(4096))
    count = width * height
    return b"P5 %d %d 255\n" % (width, height) + (samples * (count // 4096 + 1))[:count]


def mutant(chance: random.Random, content: bytes) -> bytes:
    """Returns a picture with a few bytes changed, a part cut out or repeated, or a length made up."""
    mutated = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 5, 30])):
        at = chance.randrange(len(mutated) or 1)
        match chance.randrange(6):
            case 0 | 1 if mutated:
                mutated[at] = chance.randrange(256)
            case 2 if mutated:
                mutated[at] ^= 1 << chance.randrange(8)
            case 3:
                del mutated[at : at + chance.randrange(1, 50)]
            case 4:
                mutated[at:at] = mutated[at : at + chance.randrange(1, 200)]
            case _:
                length = chance.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, chance.randrange(1 << 32)])
                mutated[at : at + 4] = struct.pack(chance.choice("<>") + "I", length)
    if chance.randrange(8) == 0:
        del mutated[chance.randrange(len(mutated) or 1) :]
    return bytes(mutated)


def some(chance: random.Random, count: int) -> dict[str, bytes]:
    """Returns pictures by name, of which about half are mutants; no two differ in their extension only."""
    pictures = {}
    for number in range(count):
        folder = chance.choice(["", "a/", "a/b c/"])
        if chance.randrange(2):
            pictures[f"{folder}{number}.pgm"] = whole(chance)
        else:
            source = chance.choice(sources())
            pictures[f"{folder}{number}{source.suffix}"] = mutant(chance, source.read_bytes())
    return pictures
