#!/usr/bin/env python3
"""Counts the words that hide a noun behind a clause: 'what that says' for 'its text'.

usage: .ci/words.py    fails if more than 1.5 % of the lines of comments, or of the pages, have
                       words of one group; if a comment is wider than 100 columns; or if help, a
                       message or a page has a banned phrase
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
# CONTRIBUTING.md has the terms to use instead.
BANNED = (
    r"\b(is|are) none of\b",
    r"\bthat are none\b",
    r"\bnone of the level\b",
    r"\b(is|are) (told|tried again)\b",
    r"\bnamed so\b",
    r"\bwho we are\b",
    r"\bwhat it is that\b",
    r"\band as it was made\b",
    r"\bgoes with it\b",
    r"\bgo(es)? over (a|the|it|them|--)",
    r"\bmend (it|that|the)\b",
    r"\btake (it|that|them) away\b",
    r"\bwhat is stored\b",
    r"\b(is|are) no (folder|file|object|picture|regular)\b",
)
COMMENT = re.compile(r"^\s*//[/!]? ?(.*)")
CODE = re.compile(r"`[^`]*`")


def files(*patterns):
    """Yields the name and the lines of each file in the repository with such a name."""
    found = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in found.stdout.splitlines():
        yield name, (ROOT / name).read_text().splitlines()


def comments():
    """Yields the file, the line's number, its width, and the comment without code in it."""
    for name, lines in files("*.rs"):
        is_code = False
        for number, line in enumerate(lines, 1):
            found = COMMENT.match(line)
            is_code ^= bool(found and found[1].startswith("```"))
            if found and not is_code:
                yield name, number, len(line), CODE.sub("", found[1])


def pages():
    """Yields the same of the lines of the pages for users."""
    for name, lines in files("README.md", "docs/*.md"):
        is_code = False
        for number, line in enumerate(lines, 1):
            is_code ^= line.lstrip().startswith("```")
            if line.strip() and not is_code:
                yield name, number, len(line), CODE.sub("", line)


def told():
    """Yields the same of the lines with help or messages: code outside tests, and help's comments."""
    for name, lines in files("src/*.rs", "crates/*/src/*.rs", "config.toml", "presets.toml", "src/*.js", "src/*.html"):
        is_help = name.startswith(("src/cli", "src/config"))
        for number, line in enumerate([] if "tests" in name else lines, 1):
            if "#[cfg(test)]" in line:
                break
            if is_help or not COMMENT.match(line):
                yield name, number, len(line), line


def share(kind, lines, groups):
    """Prints the share of the lines with words of each group, and returns those of too large ones."""
    faults = []
    for group in groups:
        having = [line for line in lines if re.search(GROUPS[group], line[3], re.IGNORECASE)]
        percent = 100 * len(having) / len(lines)
        print(f"{kind}, {group}: {percent:.2f} % of {len(lines)} lines")
        if percent > MOST_PERCENT:
            faults += [f"{name}:{number}: {text}" for name, number, _, text in having]
    return faults


def main():
    lines, of_pages = list(comments()), list(pages())
    faults = share("comments", lines, GROUPS) + share("pages", of_pages, GROUPS)
    # The program prints the comments of flags as help, and wraps them itself.
    faults += [
        f"{name}:{number}: {width} columns"
        for name, number, width, _ in lines
        if width > MOST_COLUMNS and not name.startswith(("src/cli", "src/config"))
    ]
    banned = re.compile("|".join(BANNED), re.IGNORECASE)
    faults += [
        f"{name}:{number}: banned: {found[0]}"
        for name, number, _, text in [*of_pages, *told()]
        for found in [banned.search(text)]
        if found
    ]
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
