"""Single runs over folders of this machine."""

import json
import time

import pictures
from place import LIMITS, SETTINGS, Broken, Place


def attack(place: Place):
    """Kills runs of one batch at random moments; the last one ends by itself."""
    chance = place.chance
    settings = chance.choice(SETTINGS).split()
    place.fill("in", pictures.some(chance, 80))
    begun = time.monotonic()
    expected, failed = place.reference(settings)
    lasts = time.monotonic() - begun
    resume = chance.choice([[], ["--resume"]])
    arguments = ["in", "--out", "out", *LIMITS, *settings, *resume]
    for _ in range(chance.randrange(4, 12)):
        devices = chance.choice(["cpu", "cpu-workers:2"])
        process = place.start([*arguments, "--devices", devices])
        time.sleep(chance.random() * lasts)
        place.strike(process)
        place.expect_no_other(place.files("out"), [expected])
    # Those that were in progress at three kills in a row count as failed.
    if resume:
        place.run(["retry", "out"], accepted=(0, 3))
    ended = json.loads(place.run([*arguments, "--json"]).stdout)
    told = {failure["input"].removeprefix("in/") for failure in ended["failed"]}
    if told != failed:
        raise Broken(f"told as failed: {sorted(told ^ failed)}")
    place.expect_all(place.files("out"), expected)
