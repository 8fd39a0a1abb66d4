//! Links, pipes and the like below the folders that histeqd writes to: it neither follows nor opens
//! them, and their targets stay unchanged.

use std::fs;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::harness::{BRIGHT, DULL, Place, Ran, binary, wait};
use crate::watch::service::{Service, drop_in, make_old};

/// A place with a picture in `in` and a file `victim/kept`.
fn place(picture: &str) -> Place {
    let place = Place::with(&[picture]);
    place.file("victim/kept", "precious");
    fs::create_dir(place.path("out")).unwrap();
    place
}

/// Makes an entry at a path.
type Make<'a> = &'a dyn Fn(&Path);

/// Runs the binary for at most 60 s, as it must not wait, such as for the other end of a pipe.
fn run(place: &Place, arguments: &str) -> Ran {
    let arguments = format!("60 {} {arguments}", binary());
    Ran::from(place.command("timeout", arguments.split(' ')))
}

fn is_untouched(place: &Place) {
    assert_eq!(place.tree("victim"), ["kept"]);
    assert_eq!(place.read("victim/kept"), b"precious");
}

#[test]
fn nothing_starts_where_a_link_or_a_pipe_is_in_the_place_of_a_state_file() {
    let link = |target: &'static str| move |path: &Path| std::os::unix::fs::symlink(target, path).unwrap();
    let pipe = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let obstacles: [(&str, Make<'_>, &str); 8] = [
        ("lock", &link("../../in/a.pgm"), "lock is a link and not a regular file; move it away"),
        ("lock", &link("../../victim/new"), "lock is a link and not a regular file; move it away"),
        ("lock", &pipe, "lock is a pipe and not a regular file; move it away"),
        ("ledger.sqlite", &link("../../victim/new"), "ledger.sqlite is a link and not a regular file"),
        ("ledger.sqlite", &link("../../victim/kept"), "ledger.sqlite is a link and not a regular file"),
        ("ledger.sqlite", &pipe, "ledger.sqlite is a pipe and not a regular file"),
        (
            "ledger.sqlite-wal",
            &link("../../victim/new"),
            "ledger.sqlite-wal is a link and not a regular file",
        ),
        ("ledger.sqlite-shm", &pipe, "ledger.sqlite-shm is a pipe and not a regular file"),
    ];
    for (name, make, why) in obstacles {
        for (folder, line) in [
            ("out/.histeqd", "--watch in --out out"),
            ("out/.histeqd", "in --out out --resume"),
            ("out/state", "--watch in --out out --state out/state"),
        ] {
            let place = place("in/a.pgm");
            fs::create_dir(place.path(folder)).unwrap();
            make(&place.path(folder).join(name));
            run(&place, line).exits(3).says(&format!("{folder}/{why}"));
            assert_eq!(place.read("in/a.pgm"), DULL);
            is_untouched(&place);
        }
    }
}

#[test]
fn the_state_folder_in_the_output_folder_is_no_link() {
    let place = place("in/a.pgm");
    place.link("../victim", "out/.histeqd");
    for line in ["--watch in --out out", "in --out out --resume", "status out"] {
        run(&place, line).exits(3).says("out/.histeqd is a link, and links below out are not followed");
    }
    is_untouched(&place);
}

#[test]
fn a_status_is_read_from_no_link() {
    let place = place("in/a.pgm");
    run(&place, "in --out out --resume").exits(0);
    fs::rename(place.path("out/.histeqd/ledger.sqlite"), place.path("elsewhere")).unwrap();
    place.link("../../elsewhere", "out/.histeqd/ledger.sqlite");
    run(&place, "status out").exits(3).says("ledger.sqlite is a link and not a regular file; move it away");
}

#[test]
fn folders_that_the_user_names_may_be_links() {
    let place = Place::with(&["in/sub/a.pgm", "in/sub/b.pgm"]);
    place.file("in/sub/b.pgm", "P5\n4 1\n255\n");
    make_old(&place.path("in/sub/b.pgm"));
    for folder in ["out", "state", "archive", "failed"] {
        fs::create_dir(place.path(format!("the-{folder}"))).unwrap();
        place.link(format!("the-{folder}"), folder);
    }
    let service = Service::start(&place, "--state state --after move:archive --failed failed");
    wait("the input to move", || place.path("the-archive/sub/a.pgm").exists());
    wait("the other to be set aside", || place.path("the-failed/sub/b.pgm").exists());
    assert_eq!(service.stop(), Some(0));
    assert_eq!(place.read("the-out/sub/a.pgm"), BRIGHT);
    assert!(place.path("the-state/ledger.sqlite").exists());
    run(&place, "status out --state state").exits(0).prints("done      1");
}

#[test]
fn a_picture_fails_whose_folder_in_the_output_folder_is_a_link() {
    let place = place("in/x/sub/kept");
    place.file("in/b.pgm", DULL);
    fs::create_dir(place.path("out/x")).unwrap();
    place.link("../../victim", "out/x/sub");
    for line in ["in --out out --overwrite", "in --out out --resume --durability fast"] {
        let ran = run(&place, line);
        ran.exits(1)
            .says("in/x/sub/kept: cannot write out/x/sub: out/x/sub is a link, and links below out are ");
        ran.says("use mount --bind instead, or give its target as another --out");
        assert_eq!(place.read("out/b.pgm"), BRIGHT);
        is_untouched(&place);
    }
}

#[test]
fn names_are_compared_and_leftovers_removed_in_no_folder_behind_a_link() {
    let place = Place::with(&["in/sub/A.pgm", "in/sub/a.pgm"]);
    let leftover = "victim/.histeqd-4194999-elsewhere-0.tmp";
    place.file(leftover, "");
    make_old(&place.path(leftover));
    fs::create_dir(place.path("out")).unwrap();
    place.link("../victim", "out/sub");
    let before = fs::metadata(place.path("victim")).unwrap().modified().unwrap();
    run(&place, "in --out out").exits(1).says("out/sub is a link");
    assert_eq!(place.tree("victim"), [".histeqd-4194999-elsewhere-0.tmp"]);
    let after = fs::metadata(place.path("victim")).unwrap().modified().unwrap();
    assert_eq!(before, after, "nothing was created there, not even for a moment");
}

#[test]
fn a_service_waits_for_the_link_to_go() {
    let place = place("in/sub/kept");
    place.link("../victim", "out/sub");
    let service = Service::start(&place, "--after delete");
    wait("the failure", || service.log().contains("out/sub is a link, and links below "));
    is_untouched(&place);
    assert_eq!(place.read("in/sub/kept"), DULL);
    fs::remove_file(place.path("out/sub")).unwrap();
    wait("the output", || place.path("out/sub/kept").exists());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_service_whose_lock_becomes_a_link_starts_nothing_more() {
    let place = place("in/a.pgm");
    let service = Service::start(&place, "");
    wait("the first output", || place.path("out/a.pgm").exists());
    place.link("../../victim/kept", "out/.histeqd/link");
    fs::rename(place.path("out/.histeqd/link"), place.path("out/.histeqd/lock")).unwrap();
    wait("the loss to be said", || service.log().contains("nothing more is started until this is resolved"));
    assert!(service.log().contains("lock is a link and not a regular file"), "{}", service.log());
    is_untouched(&place);
    fs::remove_file(place.path("out/.histeqd/lock")).unwrap();
    drop_in(&place, "b.pgm", DULL);
    wait("the second output", || place.path("out/b.pgm").exists());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn what_a_link_in_an_inbox_leads_to_is_copied_nowhere() {
    let place = Place::with(&["in/a.pgm", "victim/b.pgm", "other/b.pgm"]);
    place.file("victim/secret", "no picture");
    place.file("in/.bad", "P5\n4 1\n255\n");
    for file in ["victim/secret", "in/.bad"] {
        make_old(&place.path(file));
    }
    let link = |service: &Service| {
        place.link("../victim/secret", "in/c.png");
        place.link("../victim/b.pgm", "in/d.pgm");
        place.link("../other", "in/e");
        place.link(".bad", "in/f.png");
        wait("the link to be set aside", || place.path("failed/f.png").is_symlink());
        drop_in(&place, "last.pgm", DULL);
        wait("the last", || place.path("archive/last.pgm").exists());
        service.log()
    };
    let service = Service::start(&place, "--after move:archive --failed failed");
    let log = link(&service);
    assert!(log.contains("links follow takes them"), "{log}");
    assert_eq!(service.stop(), Some(0));
    assert!(["c.png", "d.pgm", "e"].iter().all(|name| place.path("in").join(name).is_symlink()), "they stay");
    assert!(!place.path("failed/c.png").exists() && !place.path("archive/d.pgm").exists());
    assert!(!place.path("out/d.pgm").exists() && !place.path("out/e").exists());
    let service = Service::start(&place, "--after move:archive --failed failed --links follow");
    wait("what it leads to", || {
        place.path("archive/d.pgm").is_file() && place.path("failed/c.png").is_file()
    });
    assert_eq!(service.stop(), Some(0));
    assert!(place.path("out/e/b.pgm").exists());
}

#[test]
fn inputs_are_put_away_into_no_folder_behind_a_link() {
    let place = place("in/sub/a.pgm");
    place.file("in/bad/b.pgm", "P5\n4 1\n255\n");
    make_old(&place.path("in/bad/b.pgm"));
    for (link, folder) in [("archive/sub", "archive"), ("failed/bad", "failed")] {
        fs::create_dir(place.path(folder)).unwrap();
        place.link("../victim", link);
    }
    let service = Service::start(&place, "--after move:archive --failed failed");
    for link in ["archive/sub", "failed/bad"] {
        wait("the trouble to be said", || {
            service.log().contains(&format!("{link} is a link, and links below "))
        });
    }
    is_untouched(&place);
    assert!(place.path("in/sub/a.pgm").exists() && place.path("in/bad/b.pgm").exists());
    for link in ["archive/sub", "failed/bad"] {
        fs::remove_file(place.path(link)).unwrap();
    }
    wait("the input to move", || place.path("archive/sub/a.pgm").exists());
    wait("the other to be set aside", || place.path("failed/bad/b.pgm").exists());
    assert!(place.path("failed/bad/b.pgm.reason.txt").exists());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn plots_named_after_inputs_are_drawn_in_no_folder_behind_a_link() {
    let place = place("in/sub/a.pgm");
    fs::create_dir(place.path("plots")).unwrap();
    place.link("../victim", "plots/sub");
    let ran = run(&place, "histogram in --plot plots/{}.svg --quiet");
    ran.exits(1).says("plots/sub is a link, and links below plots");
    is_untouched(&place);
    fs::remove_file(place.path("plots/sub")).unwrap();
    fs::create_dir(place.path("plots/sub")).unwrap();
    place.link("../../victim/kept", "plots/sub/a.pgm.svg");
    run(&place, "histogram in --plot plots/{}.svg --quiet").exits(0);
    is_untouched(&place);
    assert!(place.read("plots/sub/a.pgm.svg").starts_with(b"<svg "));
}
