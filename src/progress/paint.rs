//! Colours for terminals. [`anstream`] removes them where they would not be visible, or `NO_COLOR`
//! is set.

use std::borrow::Cow;

use anstyle::{AnsiColor, Style};

use crate::terminal_text::escape;

const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
const GREEN: Style = AnsiColor::Green.on_default().bold();

/// Labels at the start of lines, and their colours.
const LABELS: [(&str, Style); 12] = [
    ("error:", RED),
    ("failed:", RED),
    ("Failed:", RED),
    ("Would fail:", RED),
    ("Stopped:", YELLOW),
    ("stopping:", YELLOW),
    ("skipped:", YELLOW),
    ("Skipped:", YELLOW),
    ("note:", YELLOW),
    ("Note:", YELLOW),
    ("done:", GREEN),
    ("Done:", GREEN),
];

/// Returns the text, escaped for terminals, with the labels at the starts of its lines coloured.
pub fn painted(text: &str) -> String {
    escape(text).split_inclusive('\n').map(painted_line).collect()
}

fn painted_line(line: &str) -> Cow<'_, str> {
    let label = LABELS.iter().find_map(|(label, style)| Some((label, style, line.strip_prefix(label)?)));
    match label {
        Some((label, style, rest)) => format!("{style}{label}{style:#}{rest}").into(),
        None => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_at_the_start_of_a_line_are_coloured() {
        let text = "Failed: 2\n  failed: no\nwell, Done: 1\nNothing";
        assert_eq!(
            painted(text),
            "\u{1b}[1m\u{1b}[31mFailed:\u{1b}[0m 2\n  failed: no\nwell, Done: 1\nNothing"
        );
        assert_eq!(painted("a \u{1b}[1m"), "a \\u{1b}[1m", "colours of others are none");
    }
}
