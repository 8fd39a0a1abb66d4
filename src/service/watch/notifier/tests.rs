use super::*;
use std::fs;
use std::time::Duration;

fn next(notifier: &Notifier) -> Signal {
    notifier.signals().recv_timeout(Duration::from_secs(5)).unwrap()
}

#[test]
fn what_happens_to_files_and_folders_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join("watched").join(name);
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(at("")).unwrap();
    let notifier = Notifier::new().unwrap();
    notifier.watch(&folder.path().join("watched")).unwrap();
    fs::write(at("a"), "x").unwrap();
    assert_eq!(next(&notifier), Signal::Created(at("a")));
    assert_eq!(next(&notifier), Signal::Written(at("a")));
    assert_eq!(next(&notifier), Signal::Closed(at("a")));
    fs::rename(at("a"), at("b")).unwrap();
    assert_eq!(next(&notifier), Signal::Gone(at("a")));
    assert_eq!(next(&notifier), Signal::Moved { to: at("b"), from: Some(at("a")) });
    fs::rename(at("b"), &elsewhere).unwrap();
    assert_eq!(next(&notifier), Signal::Gone(at("b")));
    fs::rename(&elsewhere, at("b")).unwrap();
    assert_eq!(next(&notifier), Signal::Moved { to: at("b"), from: None });
    fs::read(at("b")).unwrap();
    fs::create_dir(at("c")).unwrap();
    assert_eq!(next(&notifier), Signal::Folder(at("c")));
    fs::remove_file(at("b")).unwrap();
    assert_eq!(next(&notifier), Signal::Gone(at("b")));
    assert!(!notifier.take_lost());
}

/// Returns a listener and its messages, a queue with room for `room` of them; it watches `/in` as
/// number 1 and `/in/a` as number 2.
fn listener(room: usize) -> (Listener, Receiver<Signal>) {
    let (sender, signals) = bounded(room);
    let shared = Shared::new(inotify::init(CreateFlags::CLOEXEC).unwrap());
    shared.watches().insert(1, Path::new("/in"));
    shared.watches().insert(2, Path::new("/in/a"));
    (Listener { shared: Arc::new(shared), signals: sender, left: None }, signals)
}

fn message(number: i32, what: ReadFlags, name: Option<&str>) -> Message<'_> {
    Message { number, what, cookie: 0, name: name.map(OsStr::new) }
}

#[test]
fn messages_beyond_the_queues_count_as_lost() {
    let (mut listener, _signals) = listener(1);
    let is_lost = |listener: &Listener| listener.shared.lost.swap(false, Ordering::Relaxed);
    listener.hear(&message(1, ReadFlags::CREATE, Some("b")));
    assert!(!is_lost(&listener));
    listener.hear(&message(1, ReadFlags::CREATE, Some("b")));
    assert!(is_lost(&listener));
    listener.hear(&message(-1, ReadFlags::QUEUE_OVERFLOW, None));
    assert!(is_lost(&listener));
}

#[test]
fn watches_that_the_kernel_ends_are_told_of_once() {
    let (mut listener, signals) = listener(8);
    listener.hear(&message(2, ReadFlags::IGNORED, None));
    listener.hear(&message(2, ReadFlags::IGNORED, None));
    assert_eq!(signals.try_iter().collect::<Vec<_>>(), [Signal::Gone("/in/a".into())]);
    listener.hear(&message(1, ReadFlags::UNMOUNT, None));
    listener.hear(&message(1, ReadFlags::IGNORED, None));
    listener.hear(&message(1, ReadFlags::CREATE, Some("b")));
    assert!(signals.is_empty() && listener.shared.unmounted.load(Ordering::Relaxed));
}

#[test]
fn nothing_is_told_of_a_folder_that_was_moved_until_it_is_watched_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("in/a/b")).unwrap();
    let notifier = Notifier::new().unwrap();
    ["in", "in/a", "in/a/b"].iter().for_each(|name| notifier.watch(&at(name)).unwrap());
    fs::rename(at("in/a"), at("in/c")).unwrap();
    assert_eq!(next(&notifier), Signal::Gone(at("in/a")));
    assert_eq!(next(&notifier), Signal::Moved { to: at("in/c"), from: Some(at("in/a")) });
    fs::write(at("in/c/b/x"), "").unwrap();
    notifier.watch(&at("in/c/b")).unwrap();
    fs::write(at("in/c/b/y"), "").unwrap();
    assert_eq!(next(&notifier), Signal::Created(at("in/c/b/y")));
    assert_eq!(next(&notifier), Signal::Closed(at("in/c/b/y")));
    notifier.leave(&at("in/c"));
    fs::write(at("in/c/b/z"), "").unwrap();
    fs::remove_dir_all(at("in/c")).unwrap();
    assert_eq!(next(&notifier), Signal::Gone(at("in/c")));
    fs::remove_dir(at("in")).unwrap();
    assert_eq!(next(&notifier), Signal::Gone(at("in")));
    assert!(!notifier.take_lost());
}

#[test]
fn its_thread_ends_with_it() {
    let Notifier { shared, signals, _end: end } = Notifier::new().unwrap();
    drop(end);
    assert!(signals.recv().is_err());
    assert_eq!(Arc::strong_count(&shared), 1);
}

#[test]
fn a_folder_that_is_not_there_is_told_from_other_trouble() {
    let notifier = Notifier::new().unwrap();
    assert!(matches!(notifier.watch(Path::new("/nowhere/at/all")), Err(NotWatched::Gone)));
}
