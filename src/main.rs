//! The histeqd command.
fn main() {}
