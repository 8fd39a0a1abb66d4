#!/usr/bin/env python3
"""Fails if modules of a crate import each other in a circle, and says which.

A module is a file together with the folder of the same name. The modules of one folder may import each other in one direction only, outside
their tests; what a module takes from its parent's file counts as coming from there, unless that file only passes it on from another module.
"""

import pathlib
import re
import sys

TESTS = re.compile(r"#\[cfg\(test\)\]\s*(pub(\([a-z]+\))? )?mod \w+ \{.*", re.S)
COMMENT = re.compile(r"//[^\n]*")
PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+(?:::\{)?|\b(?:crate|super|self)::\{")


def modules(root):
    """Returns the file of each module of a crate, by its path within the crate."""
    found = {}
    for file in root.rglob("*.rs"):
        if file.name == "tests.rs":
            continue
        parts = list(file.relative_to(root).with_suffix("").parts)
        if parts in (["lib"], ["main"]):
            parts = []
        found[tuple(parts)] = file
    return found


def grouped(text, at):
    """Returns the paths in the braces that open before `at`, each as a list of names."""
    paths, prefix, name, stack = [], [], "", []
    while True:
        c = text[at]
        if c == "{":
            stack.append(len(prefix))
        elif c in ",}":
            if name.strip():
                paths.append(prefix + [name.strip().split(" ")[0]])
            name = ""
            if stack:
                del prefix[stack[-1] :]
            else:
                prefix = []
            if c == "}":
                if not stack:
                    return paths
                stack.pop()
                if stack:
                    del prefix[stack[-1] :]
                else:
                    prefix = []
        elif text.startswith("::", at):
            prefix = prefix + [name.strip()]
            name = ""
            at += 1
        else:
            name += c
        at += 1


def names(text):
    """Returns all paths in a source text, each as a list of names."""
    text = TESTS.sub("", COMMENT.sub("", text))
    for match in PATH.finditer(text):
        path = match.group().rstrip("{").strip(":").split("::")
        if match.group().endswith("{"):
            yield from (path + rest for rest in grouped(text, match.end()))
        else:
            yield path


def passed_on(module, text, known):
    """Returns the modules that a module's file passes names on from, by name."""
    found = {}
    text = COMMENT.sub("", text)
    for match in re.finditer(r"\bpub(?:\([a-z]+\))? use (\w+(?:::\w+)*)(?:::(\{)|;)", text):
        start = match.group(1).split("::")
        if match.group(2):
            paths = [start + rest for rest in grouped(text, match.end())]
        else:
            paths = [start]
        for path in paths:
            other = imported(module, ["self"] + path, known)
            if other != module:
                found[path[-1]] = other
    return found


def imported(module, path, known):
    """Returns the module that a path leads to from a module."""
    if path[0] == "crate":
        at, path = [], path[1:]
    elif path[0] == "self":
        at, path = list(module), path[1:]
    else:
        at = list(module)
        while path and path[0] == "super":
            at, path = at[:-1], path[1:]
    for name in path:
        if tuple(at + [name]) not in known:
            break
        at.append(name)
    return tuple(at)


def circles(edges):
    """Returns the strongly connected parts of a graph that have more than one node (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            part = stack[at:]
            del stack[at:]
            if len(part) > 1:
                found.append(part)

    for node in list(edges):
        if node not in index:
            visit(node)
    return found


def imports(root):
    """Returns all pairs of a module and one that it imports."""
    known = modules(root)
    texts = {module: file.read_text() for module, file in known.items()}
    passing = {module: passed_on(module, text, known) for module, text in texts.items()}
    for module, text in texts.items():
        for path in names(text):
            other = imported(module, path, known)
            yield module, passing[other].get(path[-1], other)


def check(root):
    """Returns the circles, each with the imports that make it."""
    edges, causes = {}, {}
    for module, other in imports(root):
        depth = 0
        while depth < min(len(module), len(other)) and module[depth] == other[depth]:
            depth += 1
        if depth < min(len(module), len(other)):
            pair = module[: depth + 1], other[: depth + 1]
            edges.setdefault(pair[0], set()).add(pair[1])
            causes.setdefault(pair, set()).add(("::".join(module), "::".join(other)))
    return [(part, [causes[a, b] for a in part for b in edges[a] if b in part]) for part in circles(edges)]


def main():
    sys.setrecursionlimit(10000)
    wrong = 0
    roots = [root for pattern in ("src", "python/src", "*/*/src") for root in sorted(pathlib.Path(".").glob(pattern))]
    for root in roots:
        for part, causes in check(root):
            wrong += 1
            print(f"{root}: in a circle: {', '.join('::'.join(module) for module in sorted(part))}")
            for module, other in sorted(set().union(*causes)):
                print(f"  {module} imports {other}")
    sys.exit(wrong > 0)


main()
