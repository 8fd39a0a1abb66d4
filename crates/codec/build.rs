//! Whether libjpeg is built with vector instructions, which wild samples depend on.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(scalar_libjpeg)");
    let is_x86 = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|processor| processor.starts_with("x86"));
    if is_x86 && Command::new("nasm").arg("-v").output().is_err() {
        println!("cargo::rustc-cfg=scalar_libjpeg");
    }
}
