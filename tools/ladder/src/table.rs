//! The ladder as text.

use std::fmt::Write;

use super::report::{Figures, LadderReport, Outcome, RungReport};

/// Renders one line per rung by section, each with a sentence if `explain` is set.
pub(super) fn render(climbed: &LadderReport, explain: bool) -> String {
    let mut text = head(climbed);
    let names = climbed.sections.iter().flat_map(|section| &section.rungs);
    let width = names.map(|rung| rung.name.len()).max().unwrap_or(0);
    let pixels = f64::from(climbed.size.0) * f64::from(climbed.size.1);
    for (section, rungs) in climbed.shown() {
        let title = section.title;
        let columns = format!("{:>10} {:>9} {:>10} {:>9}", "kernels", "Gpixel/s", "whole", "Gpixel/s");
        text += &format!("\n{title:width$}   {columns}  result\n");
        if explain {
            text += &format!("  {}\n", section.about);
        }
        for rung in rungs {
            text += row(rung, width, pixels).trim_end();
            text.push('\n');
            if explain {
                text += &format!("      {}\n", rung.shows);
            }
        }
    }
    text
}

fn head(climbed: &LadderReport) -> String {
    let (width, height) = climbed.size;
    let mut text = format!("A picture of {width} x {height} pixels, 8 bit, gray unless said otherwise.\n");
    match (&climbed.gpu, &climbed.no_gpu) {
        (Some(gpu), _) => {
            let (major, minor) = (gpu.driver_cuda / 1000, gpu.driver_cuda % 1000 / 10);
            let driver = gpu.driver.as_deref().map_or(String::new(), |driver| format!(", driver {driver}"));
            let link = gpu
                .pcie
                .map_or(String::new(), |(generation, lanes)| format!(", PCIe {generation}.0 x{lanes}"));
            writeln!(text, "GPU {}: {}, CUDA {major}.{minor}{driver}{link}", gpu.ordinal, gpu.name)
                .expect("text can grow");
        }
        (None, Some(reason)) => {
            writeln!(text, "No GPU, so its rungs are left out: {reason}.").expect("text can grow");
        }
        (None, None) => {}
    }
    text
}

/// Renders the outcome of a rung for a picture of `pixels` pixels, with its name padded to `width`.
pub(super) fn row(rung: &RungReport, width: usize, pixels: f64) -> String {
    let name = rung.name;
    match &rung.outcome {
        Outcome::Measured(figures) => {
            let [kernels, whole] = [figures.kernel_seconds, figures.whole_seconds].map(|seconds| {
                let time = seconds.map_or_else(|| "-".to_owned(), time);
                let rate = seconds.map_or_else(|| "-".to_owned(), |seconds| digits(pixels / seconds / 1e9));
                format!("{time:>10} {rate:>9}")
            });
            format!("  {name:width$} {kernels} {whole}  {}", result(figures))
        }
        Outcome::Skipped { reason } => format!("  {name:width$}  skipped: {reason}"),
        Outcome::Failed { reason } => format!("  {name:width$}  FAILED: {reason}"),
    }
}

fn result(figures: &Figures) -> String {
    match (figures.bytes_per_second, figures.exact) {
        (Some(rate), _) => format!("{} GB/s", digits(rate / 1e9)),
        (None, true) => "same".to_owned(),
        (None, false) => format!(
            "{} % of the pixels differ, by up to {}",
            digits(figures.different * 100.0),
            figures.largest_difference
        ),
    }
}

/// Formats a time in milliseconds or microseconds.
pub(super) fn time(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{} µs", digits(seconds * 1e6))
    } else {
        format!("{} ms", digits(seconds * 1e3))
    }
}

/// Formats a number with three digits, a leading zero included, or all of its integer part.
fn digits(value: f64) -> String {
    let before = if value >= 1.0 { value.log10().floor() as usize + 1 } else { 1 };
    format!("{value:.*}", 3_usize.saturating_sub(before))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::SectionReport;
    use lanes::GpuInfo;

    fn figures(kernels: Option<f64>, whole: Option<f64>) -> Figures {
        Figures {
            kernel_seconds: kernels,
            whole_seconds: whole,
            exact: true,
            largest_difference: 0,
            different: 0.0,
            bytes_per_second: None,
        }
    }

    fn rung(name: &'static str, outcome: Outcome) -> RungReport {
        RungReport { name, shows: "It is shown.", outcome }
    }

    /// Returns made-up results with every kind of outcome, for a picture of 2 megapixels.
    pub(crate) fn made_up() -> LadderReport {
        let ceiling = Figures { bytes_per_second: Some(55.4e9), ..figures(None, Some(36e-6)) };
        let near = Figures {
            exact: false,
            largest_difference: 2,
            different: 0.0175,
            ..figures(Some(8e-6), Some(1e-3))
        };
        let gpu = GpuInfo {
            ordinal: 1,
            name: "Test GPU".into(),
            uuid: "GPU-0".into(),
            compute_capability: (9, 0),
            memory: 1 << 30,
            pcie: Some((5, 16)),
            driver_cuda: 12040,
            driver: Some("550.1".into()),
            nvjpeg2000: None,
            nvcomp: None,
            refused: None,
        };
        let rungs = vec![
            rung("upload", Outcome::Measured(ceiling)),
            rung("scalar", Outcome::Measured(figures(None, Some(0.0042)))),
            rung("texture unit", Outcome::Measured(near)),
            rung("two GPUs", Outcome::Skipped { reason: "there is only one GPU".into() }),
            rung("broken", Outcome::Failed { reason: "WRONG: 1 of 1 counts".into() }),
        ];
        let section = SectionReport { title: "Section", about: "What it is about.", rungs };
        LadderReport { size: (2000, 1000), gpu: Some(gpu), no_gpu: None, sections: vec![section] }
    }

    #[test]
    fn every_outcome_has_its_line() {
        assert_eq!(
            render(&made_up(), false),
            "\
A picture of 2000 x 1000 pixels, 8 bit, gray unless said otherwise.
GPU 1: Test GPU, CUDA 12.4, driver 550.1, PCIe 5.0 x16

Section           kernels  Gpixel/s      whole  Gpixel/s  result
  upload                -         -    36.0 µs      55.6  55.4 GB/s
  scalar                -         -    4.20 ms      0.48  same
  texture unit    8.00 µs       250    1.00 ms      2.00  1.75 % of the pixels differ, by up to 2
  two GPUs      skipped: there is only one GPU
  broken        FAILED: WRONG: 1 of 1 counts
"
        );
    }

    #[test]
    fn explanations_stand_below() {
        let text = render(&made_up(), true);
        assert!(text.contains("result\n  What it is about.\n  upload "), "{text}");
        assert_eq!(text.matches("\n      It is shown.\n").count(), 5);
    }

    #[test]
    fn without_a_gpu_the_reason_is_said_once_above() {
        let mut climbed = LadderReport { gpu: None, no_gpu: Some("no driver".into()), ..made_up() };
        climbed.sections[0].rungs[0].outcome = Outcome::Skipped { reason: "no driver".into() };
        let text = render(&climbed, false);
        assert_eq!(text.matches("no driver").count(), 1, "{text}");
        assert!(text.contains("\nNo GPU, so its rungs are left out: no driver.\n"));
        assert!(!text.contains("upload") && text.contains("scalar"), "{text}");
    }

    #[test]
    fn json_has_the_figures() {
        let json = serde_json::to_value(made_up()).unwrap();
        assert_eq!(json["size"], serde_json::json!([2000, 1000]));
        assert_eq!(json["gpu"]["name"], "Test GPU");
        let rungs = &json["sections"][0]["rungs"];
        assert_eq!(rungs[0]["bytes_per_second"], 55.4e9);
        assert_eq!(rungs[1]["outcome"], "measured");
        assert_eq!((&rungs[1]["kernel_seconds"], &rungs[1]["whole_seconds"]), (&().into(), &0.0042.into()));
        assert_eq!(rungs[2]["largest_difference"], 2);
        assert_eq!(rungs[3]["reason"], "there is only one GPU");
        assert_eq!(rungs[4]["outcome"], "failed");
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([0.0123, 1.0, 12.34, 123.4, 1234.5].map(digits), ["0.01", "1.00", "12.3", "123", "1234"]);
    }
}
