use super::*;
use crate::error::PictureError;
use crate::picture::preview::Sides;
use crate::progress::CompletedParts;
use crate::progress::timings::{Load, Times};
use crate::source::Remake;
use codec::{CodecError, Format};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

fn done(device: &str) -> Event {
    Event::Done {
        input: "in/a.png".into(),
        output: "out/a.png".into(),
        pixels: 12_600_000,
        bytes_in: 5,
        bytes_out: 7,
        device: device.into(),
        times: Times::default(),
        sides: Sides::default(),
    }
}

fn failed(input: impl Into<PathBuf>) -> Event {
    Event::Failed { input: input.into(), error: PictureError::Plot("no room".into()), planned: true }
}

fn skipped(why: Skip) -> Event {
    Event::Skipped { input: "in/b".into(), why, planned: false }
}

fn summary(events: Vec<Event>) -> Summary {
    let mut summary = Summary::new(Path::new("out"), Report::default());
    events.into_iter().for_each(|event| summary.count(event));
    summary.seconds = 2.0;
    summary
}

#[test]
fn the_text_says_what_was_done_and_where_to_look() {
    let summary = summary(vec![Event::Planned { count: 1 }, done("cpu")]);
    assert_eq!(summary.text(), "Done: 1 picture, 13 MP in 2.0 s (6.3 MP/s); look in out\n");
    assert_eq!(summary.exit(), Exit::Done);
}

#[test]
fn the_text_names_devices_skips_failures_and_what_is_left() {
    let summary = summary(vec![
        Event::Planned { count: 5 },
        skipped(Skip::AlreadyDone),
        skipped(Skip::NotAPicture),
        skipped(Skip::NotAPicture),
        done("cpu"),
        done("gpu0"),
        Event::Remarked { input: "in/a.webp".into(), remark: codec::Remark::NowLossless.into(), range: None },
        failed("in/x.png"),
        Event::Stopping,
    ]);
    let expected = "Done: 2 pictures, 25 MP in 2.0 s (13 MP/s); look in out\n  \
                      by cpu 1, gpu0 1\n\
                    Skipped: 1 already done (--overwrite processes them again), 2 not pictures\n\
                    Note: 1 lossy WebP written losslessly, and larger: in/a.webp\n\
                    Failed: 1 (see above)\n\
                    Stopped: 2 pictures not started; run the same command again to continue\n";
    assert_eq!(summary.text(), expected);
    assert_eq!(summary.failures(), "failed: in/x.png: its plot cannot be drawn: no room\n");
    assert_eq!(summary.exit(), Exit::Stopped);
}

#[test]
fn failures_for_one_reason_are_one_line_in_the_text_and_whole_in_json() {
    let failures = (0..5).map(|n| failed(format!("{n}.png")));
    let cut = |name: &str, reason: &str| Event::Failed {
        input: name.into(),
        error: CodecError::Malformed { format: Format::Png, reason: reason.into() }.into(),
        planned: true,
    };
    let alone = Event::Failed { input: "x".into(), error: PictureError::Changed, planned: true };
    let events = [cut("b.png", "no IEND"), alone].into_iter().chain(failures);
    let events = events.chain([cut("a.png", "no IEND"), cut("c.png", "no IDAT")]);
    let summary = summary([Event::Planned { count: 9 }].into_iter().chain(events).collect());
    let expected = "failed: 2 x damaged PNG: no IEND: a.png, b.png\n\
                    failed: x: it changed while it was being read\n\
                    failed: 5 x its plot cannot be drawn: no room: 0.png, 1.png, 2.png and 2 more (--verbose lists all)\n\
                    failed: c.png: damaged PNG: no IDAT\n";
    assert_eq!(summary.failures(), expected);
    let json: serde_json::Value = serde_json::from_str(&summary.to_json()).unwrap();
    assert_eq!(json["failed"].as_array().unwrap().len(), 9);
    assert_eq!(json["failed"][0], serde_json::json!({ "input": "b.png", "error": "damaged PNG: no IEND" }));
    assert_eq!(summary.exit(), Exit::SomeFailed);
}

#[test]
fn notes_name_three_pictures_whatever_order_they_come_in() {
    let remarked = |n: u32| Event::Remarked {
        input: format!("in/{n}.jpg").into(),
        remark: codec::Remark::WithoutGainMap.into(),
        range: None,
    };
    let of_folder = Event::Remarked { input: "in/x.png".into(), remark: Remark::FolderSettings, range: None };
    let others = [Event::Planned { count: 6 }, done("cpu"), of_folder];
    let all = summary([4, 1, 3, 0, 2].map(remarked).into_iter().chain(others).collect());
    let text = all.text();
    assert!(
        text.contains(
            "the originals keep it: in/0.jpg, in/1.jpg, in/2.jpg and 2 more (--verbose lists all)\n"
        ),
        "{text}"
    );
    assert!(text.contains("Note: 1 picture with settings of its folder (histeqd.toml)\n"), "{text}");
    assert!(!all.to_json().contains("0.jpg"), "JSON counts them");
}

#[test]
fn of_many_reasons_the_first_are_told() {
    let failed = |n| Event::Failed {
        input: format!("{n}.png").into(),
        error: PictureError::Plot(format!("{n}")),
        planned: true,
    };
    let summary = summary([Event::Planned { count: 25 }].into_iter().chain((0..25).map(failed)).collect());
    let told = summary.failures();
    assert!(told.ends_with(
        "failed: 19.png: its plot cannot be drawn: 19\nfailed: 5 more for other reasons (--verbose lists all)\n"
    ), "{told}");
}

#[test]
fn a_run_that_cannot_write_says_what_it_left() {
    let summary = summary(vec![Event::Planned { count: 3 }, done("cpu"), failed("x")]);
    let told = "Failed: 1 (see above)\nStopped: 1 picture not done, because no output can be written\n";
    assert!(summary.text().ends_with(told), "{}", summary.text());
    assert_eq!(summary.exit(), Exit::SomeFailed);
}

#[test]
fn nothing_found_is_said() {
    assert_eq!(summary(vec![]).text(), "Nothing to do: no files found\n");
    assert_eq!(
        summary(vec![skipped(Skip::NotAPicture)]).text(),
        "Done: 0 pictures\nSkipped: 1 not a picture\n"
    );
    assert_eq!(
        summary(vec![skipped(Skip::LinkLoop)]).text(),
        "Done: 0 pictures\nSkipped: 1 link that leads back to itself\n"
    );
}

#[test]
fn what_is_left_out_is_counted_by_the_glob_that_takes_it() {
    let left_out = |input: &str, purpose| Event::Skipped {
        input: input.into(),
        why: Skip::Reserved(purpose),
        planned: false,
    };
    let summary = summary(vec![
        left_out("in/@eaDir", Purpose::SystemFolder),
        left_out("in/b/@eaDir", Purpose::SystemFolder),
        left_out("in/a.jpg~", Purpose::Backup),
        left_out("in/a.jpg.part", Purpose::Incomplete),
        left_out("in/b.jpg.part", Purpose::Incomplete),
    ]);
    let expected = "Done: 0 pictures\n\
        Skipped: 2 system folders, 1 backup, 2 under temporary names\n  \
          by name: 2 *.part, 1 *~, 2 @eaDir (--include '*' --include NAME takes them)\n";
    assert_eq!(summary.text(), expected);
    let json: serde_json::Value = serde_json::from_str(&summary.to_json()).unwrap();
    assert_eq!(json["skipped"], serde_json::json!({ "system-folder": 2, "backup": 1, "incomplete": 2 }));
    assert_eq!(json["left_out"], serde_json::json!({ "*.part": 2, "*~": 1, "@eaDir": 2 }));
}

#[test]
fn who_lists_globs_with_commas_is_told_how_it_is_done() {
    let listed = Summary { selective: true, commas: true, ..summary(vec![]) };
    assert_eq!(
        listed.text(),
        "Nothing to do: no files found that match --include and --exclude; give --include once per glob, \
         not a list with commas\n"
    );
    assert!(!listed.to_json().contains("commas"));
}

#[test]
fn histograms_that_were_stopped_are_begun_anew() {
    let stopped = summary(vec![Event::Planned { count: 3 }, done("cpu"), Event::Stopping]);
    let counted = Summary { out: PathBuf::new(), ..stopped };
    assert!(
        counted.text().ends_with(
            "Stopped: 2 pictures not started; running it again starts over (a table is written to a file only when it is \
             complete)\n"
        ),
        "{}",
        counted.text()
    );
}

#[test]
fn what_was_said_a_moment_ago_is_not_said_again() {
    let missing = Event::Failed { input: "x".into(), error: PictureError::Changed, planned: false };
    assert_eq!(summary(vec![missing]).text(), "Done: 0 pictures\nFailed: 1 (see above)\n");
}

#[test]
fn what_does_them_again_fits_the_run() {
    let resumed = Summary { resumed: true, ..summary(vec![skipped(Skip::AlreadyDone)]) };
    let advice = "Skipped: 1 already done (--overwrite instead of --resume processes them again)\n";
    assert!(resumed.text().ends_with(advice), "{}", resumed.text());
    assert!(!resumed.to_json().contains("resumed"));
}

#[test]
fn a_run_that_is_stopped_while_it_looks_for_pictures_says_so() {
    let summary = summary(vec![Event::Stopping]);
    assert_eq!(summary.text(), "Stopped before any picture was started\n");
    assert_eq!(summary.exit(), Exit::Stopped);
}

#[test]
fn a_dry_run_says_what_it_would_do() {
    let would = Event::Would { input: "in/a.png".into(), output: "out/a.png".into() };
    let summary = summary(vec![Event::Planned { count: 1 }, would, skipped(Skip::AlreadyDone)]);
    assert_eq!((summary.planned, summary.left), (1, 0));
    let text = "Would do: 1 picture\nSkipped: 1 already done (--overwrite processes them again)\n";
    assert_eq!(summary.text(), text);
    let json: serde_json::Value = serde_json::from_str(&summary.to_json()).unwrap();
    assert_eq!(json["would"], serde_json::json!([{ "input": "in/a.png", "output": "out/a.png" }]));
    assert_eq!(summary.exit(), Exit::Done);
}

#[test]
fn json_has_every_figure_and_no_name_is_lost() {
    let summary = summary(vec![
        Event::Planned { count: 3 },
        done("cpu"),
        skipped(Skip::LinkLoop),
        Event::Remarked {
            input: "in/a.png".into(),
            remark: codec::Remark::WithoutGainMap.into(),
            range: None,
        },
        Event::Remade { input: "in/a.png".into(), remake: Remake { difference: Some("--color hue".into()) } },
        failed(OsStr::from_bytes(b"caf\xe9")),
        Event::Device { note: "GPU 0 is gone".into(), trouble: true },
    ]);
    let json: serde_json::Value = serde_json::from_str(&summary.to_json()).unwrap();
    let expected = serde_json::json!({
        "out": "out", "planned": 3, "done": 1, "skipped": { "link-loop": 1 }, "left_out": {},
        "remarks": { "without-gain-map": 1 }, "remade": 1, "remade_for": { "--color hue": 1 },
        "failed": [{ "input": { "bytes": [99, 97, 102, 233] }, "error": "its plot cannot be drawn: no room" }],
        "left": 1, "stopped": false, "pixels": 12_600_000, "bytes_in": 5, "bytes_out": 7, "seconds": 2.0,
        "devices": { "cpu": 1 }, "notes": ["GPU 0 is gone"],
    });
    assert_eq!(json, expected);
    assert!(!summary.to_json().contains('\n'));
}

#[test]
fn where_the_time_went_is_told_to_those_who_ask() {
    let mut summary = Summary::new(Path::new("out"), Report { timings: true, ..Report::default() });
    let load = Load { seconds: 2.0, threads: 2, publishers: 4, processor: 3.8, ..Load::default() };
    [Event::Planned { count: 1 }, done("cpu"), Event::Load(load)]
        .into_iter()
        .for_each(|event| summary.count(event));
    let text = summary.text();
    assert!(
        text.contains("\nTime: decode ") && text.contains("the bottleneck: 1.9 of 2 cores busy"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&summary.to_json()).unwrap();
    assert_eq!(json["timings"]["load"]["processor"], 3.8);
}

#[test]
fn progress_has_speed_failures_and_time_left() {
    let summary = summary(vec![Event::Planned { count: 300 }, done("cpu"), failed("x")]);
    let progress = summary.progress(Duration::from_secs(2));
    assert_eq!(progress, "2/300 pictures, 6.3 MP/s, 1 failed, 4 min 58 s left");
}

#[test]
fn progress_has_the_share_of_a_picture_that_is_read_in_parts() {
    let part = |number| Event::Part {
        input: "in/large.tif".into(),
        pixels: 5_000_000,
        completed: CompletedParts { number, all: 8 },
    };
    let mut summary = summary(vec![Event::Planned { count: 2 }, part(1), part(2)]);
    let progress = |summary: &Summary| summary.progress(Duration::from_secs(10));
    assert_eq!(progress(&summary), "0/2 pictures, 12 %, 1.0 MP/s, 70 s left");
    let error = PictureError::Read(std::io::ErrorKind::PermissionDenied.into());
    summary.count(Event::Failed { input: "in/large.tif".into(), error, planned: true });
    assert_eq!(progress(&summary), "1/2 pictures, 0.00 MP/s, 1 failed, 10 s left");
}

#[test]
fn times_are_as_fine_as_they_are_useful() {
    let times = [0.04, 9.4, 42.4, 125.0, 7260.0].map(time);
    assert_eq!(times, ["0.0 s", "9.4 s", "42 s", "2 min 05 s", "2 h 01 min"]);
}
