//! Warns about a missing tool on the building machine, and its cost.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(scalar_libjpeg)");
    let is_x86 = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|processor| processor.starts_with("x86"));
    if is_x86 && Command::new("nasm").arg("-v").output().is_err() {
        println!("cargo::rustc-cfg=scalar_libjpeg");
        println!(
            "cargo::warning=nasm is not installed: everything works, but slower for JPEGs that only libjpeg reads (arithmetic coding, rare \
             samplings). To mend that: sudo apt-get install nasm && cargo clean --package mozjpeg-sys --package histeqd-codec"
        );
    }
}
