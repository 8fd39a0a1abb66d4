#!/usr/bin/env python3
"""Counts the words in comments that hide a noun behind a clause: 'what that says' for 'its text'.

usage: .ci/words.py    fails if more than 1.5 % of the comment lines have words of one group, or if
                       a comment is wider than 100 columns
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_PERCENT, MOST_COLUMNS = 1.5, 100
GROUPS = {
    "what": r"\bwhat\b",
    "told, tells, says": r"\b(told|tells?|sa(ys?|id))\b",
    "those that, of which, whose": r"\b(those that|of which|whose)\b",
    "none, nothing, nobody": r"\b(none|nothing|nobody)\b",
    "beside, behind": r"\b(besides?|behind)\b",
}
COMMENT = re.compile(r"^\s*//[/!]? ?(.*)")


def comments():
    """Yields the file, the line's number, its width, and the comment without code in it."""
    files = subprocess.run(["git", "ls-files", "*.rs"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in files.stdout.splitlines():
        is_code = False
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            found = COMMENT.match(line)
            is_code ^= bool(found and found[1].startswith("```"))
            if found and not is_code:
                yield name, number, len(line), re.sub(r"`[^`]*`", "", found[1])


def main():
    lines = list(comments())
    faults = []
    for group, words in GROUPS.items():
        having = [line for line in lines if re.search(words, line[3], re.IGNORECASE)]
        percent = 100 * len(having) / len(lines)
        print(f"{group}: {percent:.2f} % of {len(lines)} lines")
        if percent > MOST_PERCENT:
            faults += [f"{name}:{number}: {text}" for name, number, _, text in having]
    # The program prints the comments of flags as help, and wraps them itself.
    faults += [
        f"{name}:{number}: {width} columns"
        for name, number, width, _ in lines
        if width > MOST_COLUMNS and not name.startswith(("src/cli", "src/config"))
    ]
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
