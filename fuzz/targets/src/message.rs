//! Messages of a queue, with and without signatures.

use histeqd::config::Written;
use histeqd::queue::fuzzing::{ReadMessage, sign, text_of_dead};

/// The key of the queue.
const KEY: &[u8] = b"the key of a queue";

/// Reads an input as a message, and as a dead letter.
pub(crate) fn check(data: &[u8]) {
    text_of_dead(data);
    let signed = sign(data, KEY);
    assert!(signed.ends_with(data) && signed != data, "what is signed is all there");
    if let Ok(forged) = ReadMessage::of(data, Some(KEY)) {
        assert_eq!(signed_again(&forged), data, "only what was signed is taken by who has a key");
    }
    let Ok(message) = ReadMessage::of(data, None) else { return };
    let plain = message.payload();
    assert_eq!(ReadMessage::of(&plain, None).as_ref(), Ok(&message), "it says the same again");
    assert_eq!(ReadMessage::of(&sign(&plain, KEY), Some(KEY)), Ok(message), "signed too");
    let message = ReadMessage::of(data, None).expect("it was read before");
    assert!(message.paths().all(is_plain), "no path leads up");
    let _ = Written::default().with_carried(message.settings());
}

fn signed_again(message: &ReadMessage) -> Vec<u8> {
    sign(&message.payload(), KEY)
}

/// Returns whether a path is absolute and goes nowhere but down.
fn is_plain(path: &std::path::Path) -> bool {
    let text = path.as_os_str().to_string_lossy();
    let is_url = ["s3://", "gs://", "az://"].iter().any(|scheme| text.starts_with(scheme));
    (is_url || text.starts_with('/')) && !text.split('/').any(|part| part == "..")
}
