//! A page that shows a run, in one file that needs no server: its pictures before and after,
//! remarks, and failures with their reasons.
//!
//! It is written after the run, from its summary, which has small versions of pictures made while
//! they were in memory; the others are made from the files as they are then. The module does not
//! know the pipeline.

mod html;

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::mem;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use codec::Limits;

use crate::config::Settings;
use crate::error::Error;
use crate::fs::beneath::Folder;
use crate::fs::paths::{Shown, folder_of};
use crate::picture::preview::{Facts, PreviewError, Shown as Small};
use crate::progress::listing::{How, ListedPicture};
use crate::progress::{Summary, megapixels, pictures};
use crate::publish::{PublishError, Publisher};
use crate::slot::{SlotPool, Spare};
use crate::source::Job;
use html::{Html, bytes};

/// The most pictures to show; others are named.
const SHOWN: usize = 500;

const STYLE: &str = include_str!("report/page.css");
const SCRIPT: &str = include_str!("report/page.js");

/// No content from elsewhere.
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      base-uri 'none'; form-action 'none'";

/// Returns whether a file has the name of a page: a picture of that name is not replaced.
pub(crate) fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html"))
}

/// Checks that the page can be written, before there is content for it.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn check(page: &Path, publisher: &Publisher) -> Result<(), PublishError> {
    publisher.begin(folder_of(page), page).map(drop)
}

/// Marks the jobs with pictures to show on the page: the first by their names.
pub(crate) fn choose(jobs: &mut [Job]) {
    let mut places: Vec<usize> = (0..jobs.len()).collect();
    places.sort_by(|&a, &b| jobs[a].input.cmp(&jobs[b].input));
    places.into_iter().take(SHOWN).for_each(|place| jobs[place].is_shown = true);
}

/// Writes the page of a run, and adds the time that it takes to the summary.
///
/// # Errors
/// When it cannot be written. If a picture cannot be shown, the page gives the reason instead.
pub fn write(
    page: &Path,
    summary: &mut Summary,
    settings: &Settings,
    publisher: &Publisher,
) -> Result<(), Error> {
    let (started, before) = (Instant::now(), summary.seconds);
    let mut listed = summary.listing.take().unwrap_or_default();
    let mut done_before = mem::take(&mut listed.done_before);
    // If the run had no work to do, people want to see the existing outputs.
    if listed.pictures.is_empty() {
        mem::swap(&mut listed.pictures, &mut done_before);
    }
    [&mut listed.pictures, &mut done_before].into_iter().for_each(|pictures| pictures.sort_by(by_name));
    let (shown, named) = listed.pictures.split_at(listed.pictures.len().min(SHOWN));
    let drawn = draw(shown, settings);
    // The rest takes a moment.
    summary.seconds = before + started.elapsed().as_secs_f64();
    let remarks = |picture: &ListedPicture| match listed.remarks.get(&picture.input) {
        Some(remarks) => remarks.iter().map(|remark| format!("; {remark}")).collect(),
        None => String::new(),
    };
    let mut text = head(summary, settings);
    for (picture, drawn) in shown.iter().zip(&drawn) {
        add_figure(&mut text, picture, drawn, &remarks(picture));
    }
    text.push_str("</section>\n");
    add_table(
        &mut text,
        "Also done",
        named.iter().map(|picture| (&*picture.input, facts(picture) + &remarks(picture))),
    );
    let unnamed = summary.done.saturating_sub(listed.pictures.len() as u64);
    if unnamed > 0 {
        let _ = writeln!(text, "<p>And {} more.</p>", pictures(unnamed));
    }
    add_table(&mut text, "Done before", done_before.iter().map(|picture| (&*picture.input, facts(picture))));
    add_table(
        &mut text,
        "Failed",
        summary.failed.iter().map(|failure| (&*failure.input, failure.error.clone())),
    );
    let _ = write!(text, "<script>{SCRIPT}</script>\n</body>\n</html>\n");
    let mut unpublished = publisher.begin(folder_of(page), page)?;
    unpublished.file().write_all(text.as_bytes()).map_err(|source| unpublished.unwritten(source))?;
    unpublished.publish()?;
    summary.seconds = before + started.elapsed().as_secs_f64();
    Ok(())
}

fn by_name(one: &ListedPicture, other: &ListedPicture) -> Ordering {
    one.input.cmp(&other.input)
}

/// Returns the page up to the first picture.
fn head(summary: &Summary, settings: &Settings) -> String {
    // Failures have a table of their own.
    let (brief, text) = (settings.in_brief(), summary.text().replace(" (see above)", ""));
    let title = format!("histeqd: {}", pictures(summary.done));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p>{}</p>\n<pre>{}</pre>\n<section class=\"pictures\">\n",
        Html(&brief),
        Html(text.trim_end()),
    )
}

/// Returns a picture's facts in a few words.
fn facts(picture: &ListedPicture) -> String {
    let Some(&How { pixels, bytes_in, bytes_out, ref device }) = picture.how.as_ref() else {
        return "done by an earlier run".to_owned();
    };
    format!("{}, {} read, {} written, {device}", megapixels(pixels), bytes(bytes_in), bytes(bytes_out))
}

fn add_table<'p>(text: &mut String, title: &str, rows: impl ExactSizeIterator<Item = (&'p Path, String)>) {
    if rows.len() == 0 {
        return;
    }
    let _ = writeln!(text, "<h2>{title}</h2>\n<table>");
    for (path, about) in rows {
        let path = Shown(path).to_string();
        let _ = writeln!(text, "<tr><th>{}</th><td>{}</td></tr>", Html(&path), Html(&about));
    }
    text.push_str("</table>\n");
}

/// The views of a picture: before and after.
type Drawn = [Result<Small, String>; 2];

/// Returns, in words, which page or frame is shown, if there are several.
fn part(facts: &Facts) -> Option<String> {
    match (facts.pages, facts.frames) {
        (pages @ 2.., _) => Some(format!("; page 1 of {pages} is shown")),
        (_, frames @ 2..) => Some(format!("; frame 1 of {frames} is shown")),
        _ => None,
    }
}

fn add_figure(text: &mut String, picture: &ListedPicture, drawn: &Drawn, remarks: &str) {
    let (path, facts) = (Shown(&picture.input).to_string(), facts(picture));
    let short = picture.input.file_name().map_or_else(|| path.clone(), |name| Shown(name).to_string());
    let folder = path.strip_suffix(&short).unwrap_or_default();
    let part = drawn.iter().flatten().find_map(|side| part(&side.facts)).unwrap_or_default();
    let _ = write!(
        text,
        "<figure>\n<figcaption><b title=\"{}\">{}</b> <span class=\"folder\">{}</span> {}{}{}</figcaption>\n<div class=\"compare\">",
        Html(&path),
        Html(&short),
        Html(folder),
        Html(&facts),
        Html(&part),
        Html(remarks),
    );
    for (name, side) in ["before", "after"].into_iter().zip(drawn) {
        let _ = match side {
            Ok(side) => write!(
                text,
                "<img class=\"{name}\" loading=\"lazy\" alt=\"{}, {name}\" src=\"data:image/jpeg;base64,{}\">",
                Html(&short),
                BASE64.encode(&side.jpeg)
            ),
            Err(why) => write!(text, "<p class=\"{name}\">no picture {name}: {}</p>", Html(why)),
        };
    }
    let _ = write!(
        text,
        "</div>\n<input type=\"range\" min=\"0\" max=\"100\" value=\"50\" aria-label=\"{}: divider between before and after\">\n\
         <div class=\"sides\" aria-hidden=\"true\"><span>before</span><span>after</span></div>\n",
        Html(&short)
    );
    let sides = ["before", "after"].into_iter().zip(drawn);
    for (name, side) in sides.filter_map(|(name, side)| Some((name, side.as_ref().ok()?))) {
        html::add_histogram(text, name, &side.facts.histogram);
    }
    text.push_str("</figure>\n");
}

/// Makes small versions of pictures, on as many threads as the run had, within its memory.
fn draw(shown: &[ListedPicture], settings: &Settings) -> Vec<Drawn> {
    let pool = Arc::new(SlotPool::new(settings.memory));
    let todo: Mutex<VecDeque<usize>> = Mutex::new((0..shown.len()).collect());
    let drawn: Mutex<Vec<Option<Drawn>>> = Mutex::new(shown.iter().map(|_| None).collect());
    let work = || {
        while let Some(at) = lock(&todo).pop_front() {
            let sides = sides(&shown[at], settings, &pool);
            let all_have_room =
                !sides.iter().any(|side| matches!(side, Err(SideError::Preview(PreviewError::Memory))));
            if all_have_room {
                lock(&drawn)[at] = Some(sides.map(|side| side.map_err(|error| error.to_string())));
            }
        }
    };
    thread::scope(|scope| {
        (1..settings.threads.min(shown.len())).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    // Pictures that had no room next to others have it alone.
    let drawn = drawn.into_inner().unwrap_or_else(PoisonError::into_inner);
    let alone = |picture| sides(picture, settings, &pool).map(|side| side.map_err(|error| error.to_string()));
    let drawn = shown.iter().zip(drawn);
    drawn.map(|(picture, drawn)| drawn.unwrap_or_else(|| alone(picture))).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a version of a picture is not shown.
#[derive(Debug, thiserror::Error)]
enum SideError {
    #[error("it is in object storage")]
    Remote,
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error(transparent)]
    Preview(#[from] PreviewError),
}

/// Makes small versions of a picture, before and after. Below the output folder no link is
/// followed, and its input is opened as other inputs are.
fn sides(
    picture: &ListedPicture,
    settings: &Settings,
    pool: &Arc<SlotPool>,
) -> [Result<Small, SideError>; 2] {
    let ListedPicture { input, output, how, sides } = picture;
    let limits = Limits { max_bytes: u64::MAX, ..settings.limits };
    let seen = |side: &Option<Box<Small>>| side.as_deref().cloned();
    let read = || {
        let file = settings.roots.open(local(input)?)?;
        side(file, how.as_ref().map(|how| how.bytes_in), &limits, pool)
    };
    let written = || {
        let (folder, name) = Folder::of(&settings.out, local(output)?)?;
        side(folder.read(name)?, how.as_ref().map(|how| how.bytes_out), &limits, pool)
    };
    [seen(&sides.before).map_or_else(read, Ok), seen(&sides.after).map_or_else(written, Ok)]
}

fn local(path: &Path) -> Result<&Path, SideError> {
    if store::is_url(path) { Err(SideError::Remote) } else { Ok(path) }
}

fn side(
    mut file: File,
    bytes: Option<u64>,
    limits: &Limits,
    pool: &Arc<SlotPool>,
) -> Result<Small, SideError> {
    Ok(Small::of(&mut file, bytes, limits, &mut Spare::of(pool))?)
}
