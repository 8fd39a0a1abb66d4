//! Configuration files, the settings of folders, and the recorded settings of outputs.

use histeqd::config::{Written, fuzzing};

/// Reads an input as a configuration file, as that of a folder and as a recipe.
///
/// Settings that can be read can be written, and stay the same.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match fuzzing::config_file(text) {
        Ok(written) => check_again(&written),
        Err(why) => assert!(why.to_string().starts_with("config.toml:"), "the file is named: {why}"),
    }
    if let Ok(written) = fuzzing::folder_file(text) {
        check_again(&written);
    }
    if let Some((told, difference)) = fuzzing::recipe(text) {
        assert!(!told.is_empty() && !difference.is_empty(), "something is told");
    }
}

fn check_again(written: &Written) {
    let again = fuzzing::config_file(&written.to_toml()).expect("what was written can be read");
    assert_eq!(again.to_toml(), written.to_toml(), "it says the same");
}
