//! The HTML of the page.

use std::fmt::{self, Write as _};

use crate::terminal_text::escape;

/// A text from elsewhere, escaped for HTML and its attributes.
pub(super) struct Html<'a>(pub(super) &'a str);

impl fmt::Display for Html<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.0).chars().try_for_each(|char| match char {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            char => f.write_char(char),
        })
    }
}

/// Draws a histogram from dark to light, with the square roots of its counts to make rare levels
/// visible.
pub(super) fn add_histogram(text: &mut String, name: &str, histogram: &[u64]) {
    let most = histogram.iter().copied().max().unwrap_or(0).max(1) as f64;
    let mut path = String::from("M0 40");
    for (at, &count) in histogram.iter().enumerate() {
        let top = 40.0 - 40.0 * (count as f64 / most).sqrt();
        let _ = write!(path, "V{top:.1}H{}", at + 1);
    }
    let _ = writeln!(
        text,
        "<svg role=\"img\" aria-label=\"Histogram {name}, from dark to light\" viewBox=\"0 0 {} 40\" preserveAspectRatio=\"none\">\
         <path class=\"{name}\" d=\"{path}V40Z\"/></svg>",
        histogram.len()
    );
}

pub(super) fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        small if small < 1e3 => format!("{small} bytes"),
        medium if medium < 1e6 => format!("{:.0} kB", medium / 1e3),
        large => format!("{:.1} MB", large / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_name_is_markup() {
        let name = "<script>\"a\" & 'b'\u{1b}[2J\u{202e}.png";
        assert_eq!(
            Html(name).to_string(),
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;\\u{1b}[2J\\u{202e}.png"
        );
    }

    #[test]
    fn a_histogram_is_a_staircase() {
        let mut text = String::new();
        add_histogram(&mut text, "before", &[4, 0, 1]);
        assert!(
            text.contains("viewBox=\"0 0 3 40\"") && text.contains("M0 40V0.0H1V40.0H2V20.0H3V40Z"),
            "{text}"
        );
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!([999, 1500, 2_340_000].map(bytes), ["999 bytes", "2 kB", "2.3 MB"]);
    }
}
