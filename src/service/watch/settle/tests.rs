use super::*;

const REST: Duration = Duration::from_millis(500);
const SECOND: Duration = Duration::from_secs(1);

/// A state machine, its time, and one file.
struct Case {
    settle: Settle,
    now: Instant,
}

fn stamp(size: u64) -> Stamp {
    Stamp { size, mtime_ns: 1, inode: 1 }
}

fn young(size: u64) -> Seen {
    Seen { stamp: stamp(size), age: Some(Duration::ZERO), writer: Writer::Absent, doubt: Doubt::None }
}

fn old(size: u64) -> Seen {
    Seen {
        stamp: stamp(size),
        age: Some(Duration::from_secs(3600)),
        writer: Writer::Absent,
        doubt: Doubt::None,
    }
}

fn a() -> &'static Path {
    Path::new("in/a.png")
}

impl Case {
    fn new() -> Self {
        Self { settle: Settle::new(REST), now: Instant::now() }
    }

    /// Lets time pass; the file is as `seen` whenever it is examined.
    fn pass(&mut self, time: Duration, seen: Option<Seen>) {
        let until = self.now + time;
        while let Some(at) = self.settle.next_due().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            while let Some(path) = self.settle.due(self.now) {
                self.settle.looked(&path, seen, self.now);
            }
        }
        self.now = until;
    }

    fn taken(&mut self) -> Option<u64> {
        self.settle.take().map(|ready| ready.stamp.size)
    }

    fn finish(&mut self, ending: Ending, seen: Option<Seen>) -> Verdict {
        self.settle.finished(a(), ending, seen, self.now)
    }

    fn is_empty(&self) -> bool {
        self.settle.counts() == Counts::default() && self.settle.next_due().is_none()
    }
}

#[test]
fn a_file_that_is_closed_or_moved_here_is_ready_at_once() {
    let mut case = Case::new();
    case.settle.complete(a(), stamp(5), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(5));
    assert_eq!(case.taken(), None);
    assert_eq!(case.finish(Ending::Good, Some(young(5))), Verdict::Settled);
    assert!(case.is_empty());
}

#[test]
fn a_listed_file_is_ready_when_it_has_rested() {
    let mut case = Case::new();
    case.settle.listed(a(), young(5), case.now);
    case.pass(REST / 2, Some(young(6)));
    assert_eq!(case.taken(), None);
    case.pass(REST / 2, Some(young(6)));
    assert_eq!(case.taken(), None, "it grew");
    case.pass(REST, Some(young(6)));
    assert_eq!(case.taken(), Some(6));
}

#[test]
fn a_listed_file_that_is_old_is_ready_at_once_where_clocks_can_be_trusted() {
    let mut case = Case::new();
    case.settle.listed(a(), old(5), case.now);
    assert_eq!(case.taken(), Some(5));
    let mut case = Case::new();
    case.settle.listed(a(), Seen { age: None, ..old(5) }, case.now);
    assert_eq!(case.taken(), None);
}

#[test]
fn a_listed_file_waits_for_a_writer_that_opened_it_before_but_not_forever() {
    let written = |seen| Seen { writer: Writer::Present, ..seen };
    let mut case = Case::new();
    case.settle.listed(a(), written(young(5)), case.now);
    case.pass(LONGEST_OPEN - SECOND, Some(written(young(5))));
    case.settle.listed(a(), written(young(6)), case.now);
    case.pass(LONGEST_OPEN - SECOND, Some(written(young(6))));
    assert_eq!(case.taken(), None);
    case.pass(SECOND + ASK_AGAIN, Some(written(young(6))));
    assert_eq!(case.taken(), Some(6), "nothing more was written");
    let mut case = Case::new();
    case.settle.listed(a(), young(5), case.now);
    case.pass(REST, Some(written(young(5))));
    assert_eq!(case.taken(), None, "it was opened meanwhile");
    case.pass(ASK_AGAIN, Some(young(5)));
    assert_eq!(case.taken(), Some(5), "it was closed");
}

#[test]
fn a_file_that_is_to_go_stays_while_it_is_written_to() {
    let (written, unwritten) = (Seen { writer: Writer::Present, ..young(5) }, young(5));
    let mut case = Case::new();
    case.settle.complete(a(), stamp(5), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(5));
    assert_eq!(case.finish(Ending::Leaving, Some(written)), Verdict::Changed);
    case.pass(10 * SECOND, Some(written));
    assert_eq!(case.taken(), None);
    case.pass(ASK_AGAIN, Some(unwritten));
    assert_eq!(case.taken(), Some(5));
    assert_eq!(case.finish(Ending::Leaving, Some(unwritten)), Verdict::Settled);
}

#[test]
fn a_file_that_was_closed_unheard_is_broken_for_good_like_any_other() {
    let mut case = Case::new();
    case.settle.listed(a(), Seen { writer: Writer::Present, ..young(5) }, case.now);
    let closed = |case: &Case, begin| Some(Seen { age: Some(case.now - begin), ..young(5) });
    let begin = case.now;
    case.pass(8 * SECOND, Some(Seen { writer: Writer::Present, ..young(5) }));
    while case.now - begin < 2 * CERTAIN_AGE {
        case.pass(SECOND, closed(&case, begin));
        if case.taken().is_some() && case.finish(Ending::Broken, closed(&case, begin)) == Verdict::Settled {
            return;
        }
    }
    panic!("it is tried again and again");
}

#[test]
fn a_listed_file_rests_longer_where_writers_are_not_known() {
    let unknown = |size| Some(Seen { writer: Writer::Unknown, ..young(size) });
    let mut case = Case::new();
    case.settle.listed(a(), unknown(5).unwrap(), case.now);
    case.pass(RESTED_AGE - SECOND, unknown(5));
    assert_eq!(case.taken(), None);
    case.pass(SECOND, unknown(5));
    assert_eq!(case.taken(), Some(5));
}

#[test]
fn a_file_that_a_writer_has_open_waits_for_its_close_however_slow_it_is() {
    let mut case = Case::new();
    case.settle.touched(a(), case.now);
    for size in 1..20 {
        case.settle.touched(a(), case.now);
        case.pass(61 * SECOND, Some(young(size)));
        assert_eq!(case.taken(), None);
    }
    case.settle.complete(a(), stamp(20), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(20));
}

#[test]
fn patience_with_a_writer_that_does_nothing_has_an_end() {
    let mut case = Case::new();
    case.settle.touched(a(), case.now);
    case.pass(LONGEST_OPEN * 2, Some(young(5)));
    assert_eq!(case.taken(), Some(5));
}

#[test]
fn without_sight_of_writers_resting_is_enough() {
    let mut case = Case::new();
    case.settle.touched(a(), case.now);
    case.settle.lost_sight(case.now);
    case.pass(REST * 2, Some(young(5)));
    assert_eq!(case.taken(), Some(5));
}

#[test]
fn a_picture_that_is_broken_because_its_writer_pauses_is_looked_at_again() {
    let mut case = Case::new();
    case.settle.complete(a(), stamp(1), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(1));
    assert_eq!(case.finish(Ending::Broken, Some(young(1))), Verdict::Retry(2 * SECOND));
    case.pass(59 * SECOND, Some(young(1)));
    while case.taken().is_some() {
        assert!(matches!(case.finish(Ending::Broken, Some(young(1))), Verdict::Retry(_)));
    }
    case.settle.touched(a(), case.now);
    case.settle.complete(a(), stamp(2), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(2));
    assert_eq!(case.finish(Ending::Good, Some(young(2))), Verdict::Settled);
}

#[test]
fn a_picture_that_is_broken_and_certainly_complete_fails_at_once() {
    let mut case = Case::new();
    case.settle.complete(a(), stamp(1), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(1));
    assert_eq!(case.finish(Ending::Broken, Some(old(1))), Verdict::Settled);
    case.settle.listed(a(), old(1), case.now);
    assert_eq!(case.taken(), Some(1));
    assert_eq!(case.finish(Ending::Broken, Some(old(1))), Verdict::Settled);
    assert!(case.is_empty());
}

#[test]
fn what_no_further_bytes_can_mend_fails_at_once_unless_somebody_has_it_open() {
    let mut case = Case::new();
    case.settle.complete(a(), stamp(1), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(1));
    let open = Seen { writer: Writer::Present, ..young(1) };
    assert!(matches!(case.finish(Ending::Refused, Some(open)), Verdict::Retry(_)));
    case.pass(3 * SECOND, Some(young(1)));
    assert_eq!(case.taken(), Some(1));
    assert_eq!(case.finish(Ending::Refused, Some(young(1))), Verdict::Settled);
    assert!(case.is_empty());
}

#[test]
fn a_broken_picture_that_nobody_completes_fails_within_a_few_minutes_and_tries() {
    let mut case = Case::new();
    let start = case.now;
    case.settle.listed(a(), Seen { age: None, ..young(1) }, case.now);
    let mut tries = 0;
    loop {
        case.pass(SECOND, Some(Seen { age: None, ..young(1) }));
        if case.taken().is_some() {
            tries += 1;
            if case.finish(Ending::Broken, Some(Seen { age: None, ..young(1) })) == Verdict::Settled {
                break;
            }
        }
    }
    assert!(case.now - start < Duration::from_secs(200), "{:?}", case.now - start);
    assert!(tries <= 7, "{tries}");
}

#[test]
fn what_can_pass_is_tried_again_with_growing_pauses_and_without_end() {
    let mut case = Case::new();
    case.settle.complete(a(), stamp(1), Doubt::None, case.now);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        case.settle.take().unwrap();
        let Verdict::Retry(pause) = case.finish(Ending::Passing, Some(young(1))) else { panic!() };
        pauses.push(pause);
        case.pass(pause - Duration::from_millis(1), Some(young(1)));
        assert_eq!(case.taken(), None);
        case.pass(Duration::from_millis(1), Some(young(1)));
    }
    assert!(
        pauses.is_sorted()
            && pauses[0] == Backoff::OF_A_FILE.first
            && pauses[11] == Backoff::OF_A_FILE.longest,
        "{pauses:?}"
    );
}

#[test]
fn a_file_that_is_replaced_while_its_job_runs_is_done_again() {
    let mut case = Case::new();
    case.settle.complete(a(), stamp(1), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(1));
    case.settle.complete(a(), stamp(2), Doubt::None, case.now);
    assert_eq!(case.taken(), None, "not twice at the same time");
    assert_eq!(case.finish(Ending::Good, Some(young(2))), Verdict::Changed);
    assert_eq!(case.taken(), Some(2));
}

#[test]
fn a_file_that_is_written_to_while_its_job_runs_is_done_again_even_with_the_same_stamp() {
    let mut case = Case::new();
    case.settle.complete(a(), stamp(1), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(1));
    case.settle.touched(a(), case.now);
    assert_eq!(case.finish(Ending::Good, Some(young(1))), Verdict::Changed);
    case.pass(60 * SECOND, Some(young(1)));
    assert_eq!(case.taken(), None, "the writer has it open");
    case.settle.complete(a(), stamp(1), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(1));
}

#[test]
fn a_second_word_about_the_same_content_changes_nothing() {
    let mut case = Case::new();
    case.settle.complete(a(), stamp(1), Doubt::None, case.now);
    case.settle.complete(a(), stamp(1), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(1));
    case.settle.complete(a(), stamp(1), Doubt::None, case.now);
    case.settle.listed(a(), young(1), case.now);
    assert_eq!(case.finish(Ending::Good, Some(young(1))), Verdict::Settled);
    assert!(case.is_empty());
}

#[test]
fn a_file_that_went_away_is_forgotten_whatever_it_waited_for() {
    let mut case = Case::new();
    case.settle.touched(a(), case.now);
    case.settle.gone(a());
    case.settle.listed(a(), young(1), case.now);
    case.pass(REST, None);
    assert_eq!(case.settle.take_gone(), [a(), a()]);
    case.settle.complete(a(), stamp(1), Doubt::None, case.now);
    case.settle.gone(a());
    assert_eq!(case.taken(), None);
    case.settle.complete(a(), stamp(1), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(1));
    case.settle.gone(a());
    assert_eq!(case.finish(Ending::Passing, None), Verdict::Gone);
    assert!(case.is_empty());
}

#[test]
fn a_folder_that_went_away_takes_its_own_files_along_and_no_others() {
    let mut case = Case::new();
    for path in ["in/a/1", "in/a/b/2", "in/a.png", "in/ab/3", "in/a"] {
        case.settle.complete(Path::new(path), stamp(1), Doubt::None, case.now);
    }
    case.settle.gone_below(Path::new("in/a"));
    let left: Vec<_> = std::iter::from_fn(|| case.settle.take()).map(|ready| ready.path).collect();
    assert_eq!(left, ["in/a.png", "in/ab/3", "in/a"].map(PathBuf::from));
}

#[test]
fn files_are_taken_in_the_order_in_which_they_became_ready() {
    let mut case = Case::new();
    for name in ["c", "a", "b"] {
        case.settle.complete(Path::new(name), stamp(1), Doubt::None, case.now);
    }
    case.settle.touched(Path::new("c"), case.now);
    case.settle.complete(Path::new("c"), stamp(2), Doubt::None, case.now);
    let order: Vec<_> = std::iter::from_fn(|| case.settle.take()).map(|ready| ready.path).collect();
    assert_eq!(order.len(), 3);
    assert_eq!(case.settle.counts(), Counts { running: 3, ..Counts::default() });
}

#[test]
fn a_file_that_comes_and_goes_while_nothing_is_taken_leaves_few_names() {
    let mut case = Case::new();
    for _ in 0..1000 {
        case.settle.complete(a(), stamp(1), Doubt::None, case.now);
        case.settle.gone(a());
    }
    case.settle.complete(a(), stamp(2), Doubt::None, case.now);
    assert!(case.settle.ready.len() < 100, "{}", case.settle.ready.len());
    assert_eq!(case.taken(), Some(2));
    assert_eq!(case.taken(), None);
}

#[test]
fn a_broken_picture_is_not_given_up_while_its_silent_writer_may_go_on() {
    let open = Seen { writer: Writer::Present, ..old(1) };
    let mut case = Case::new();
    case.settle.touched(a(), case.now);
    case.pass(LONGEST_OPEN - SECOND, Some(open));
    assert_eq!(case.taken(), None);
    case.pass(SECOND, Some(open));
    assert_eq!(case.taken(), Some(1), "tried as it is");
    let hours = |case: &mut Case, hours: u32| {
        let until = case.now + Duration::from_secs(3600) * hours;
        while case.now < until {
            let Verdict::Retry(pause) = case.finish(Ending::Broken, Some(open)) else { panic!() };
            case.pass(pause, Some(open));
            assert_eq!(case.taken(), Some(1));
        }
    };
    hours(&mut case, 23);
    case.settle.touched(a(), case.now);
    assert_eq!(case.finish(Ending::Broken, Some(open)), Verdict::Changed);
    case.pass(LONGEST_OPEN, Some(open));
    assert_eq!(case.taken(), Some(1));
    hours(&mut case, 23);
    case.settle.complete(a(), stamp(2), Doubt::None, case.now);
    assert_eq!(case.finish(Ending::Broken, Some(old(2))), Verdict::Changed);
    assert_eq!(case.taken(), Some(2));
    assert_eq!(case.finish(Ending::Broken, Some(old(2))), Verdict::Settled);
}

#[test]
fn a_writer_that_is_silent_for_a_day_does_not_go_on() {
    let mut case = Case::new();
    case.settle.touched(a(), case.now);
    case.pass(LONGEST_SILENCE, Some(old(1)));
    assert_eq!(case.taken(), Some(1));
    assert_eq!(case.finish(Ending::Broken, Some(old(1))), Verdict::Settled);
}

#[test]
fn what_would_have_failed_for_any_file_is_ready_again() {
    let mut case = Case::new();
    case.settle.complete(a(), stamp(1), Doubt::None, case.now);
    for _ in 0..3 {
        assert_eq!(case.taken(), Some(1));
        assert_eq!(case.finish(Ending::Held, Some(young(1))), Verdict::Retry(Duration::ZERO));
    }
    assert_eq!(case.settle.counts(), Counts { ready: 1, ..Counts::default() });
}

#[test]
fn a_close_that_was_lost_with_other_messages_is_not_waited_for() {
    let mut case = Case::new();
    case.settle.touched(a(), case.now);
    case.pass(LONGEST_OPEN, Some(old(1)));
    assert_eq!(case.taken(), Some(1));
    case.settle.lost_sight(case.now);
    assert_eq!(case.finish(Ending::Broken, Some(old(1))), Verdict::Settled);
}

#[test]
fn a_closed_file_of_no_pictures_name_rests_and_may_be_renamed_meanwhile() {
    let mut case = Case::new();
    let unnamed = |size| Some(Seen { doubt: Doubt::Name, ..young(size) });
    case.settle.complete(a(), stamp(5), Doubt::Name, case.now);
    case.pass(REST / 2, unnamed(5));
    case.settle.complete(a(), stamp(5), Doubt::Name, case.now);
    case.pass(REST / 2, unnamed(5));
    assert_eq!(case.taken(), None, "it was closed again");
    case.pass(REST / 2, unnamed(5));
    assert_eq!(case.taken(), Some(5));
    let mut case = Case::new();
    case.settle.complete(a(), stamp(5), Doubt::Name, case.now);
    case.settle.gone(a());
    assert!(case.taken().is_none() && case.is_empty());
}

#[test]
fn a_closed_file_with_holes_rests_twice_and_longer_until_they_are_filled() {
    let reserved = |size| Some(Seen { doubt: Doubt::Holes, ..young(size) });
    let mut case = Case::new();
    case.settle.complete(a(), stamp(5), Doubt::Holes, case.now);
    case.pass(RESTED_AGE - SECOND, reserved(5));
    assert_eq!(case.taken(), None);
    case.settle.touched(a(), case.now);
    case.settle.complete(a(), stamp(6), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(6), "they were filled");
    let mut case = Case::new();
    case.settle.set_rest(RESTED_AGE);
    case.settle.complete(a(), stamp(5), Doubt::Holes, case.now);
    case.pass(2 * RESTED_AGE - SECOND, reserved(5));
    assert_eq!(case.taken(), None);
    case.pass(SECOND, reserved(5));
    assert_eq!(case.taken(), Some(5), "they stayed");
}

#[test]
fn a_listed_file_with_holes_rests_as_long() {
    let reserved = |size| Some(Seen { doubt: Doubt::Holes, ..young(size) });
    let mut case = Case::new();
    case.settle.listed(a(), young(5), case.now);
    case.pass(RESTED_AGE - SECOND, reserved(5));
    assert_eq!(case.taken(), None);
    case.pass(SECOND, reserved(5));
    assert_eq!(case.taken(), Some(5));
}

#[test]
fn what_comes_in_doubt_while_it_runs_rests_too() {
    let mut case = Case::new();
    case.settle.complete(a(), stamp(5), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(5));
    case.settle.complete(a(), stamp(6), Doubt::Holes, case.now);
    assert_eq!(case.finish(Ending::Leaving, Some(young(6))), Verdict::Changed);
    assert_eq!(case.taken(), None);
    case.pass(RESTED_AGE, Some(Seen { doubt: Doubt::Holes, ..young(6) }));
    assert_eq!(case.taken(), Some(6));
}

#[test]
fn what_failed_for_now_below_a_folder_is_tried_again_at_once_when_asked() {
    let mut case = Case::new();
    case.settle.complete(a(), stamp(5), Doubt::None, case.now);
    assert_eq!(case.taken(), Some(5));
    assert!(matches!(case.finish(Ending::Passing, Some(young(5))), Verdict::Retry(_)));
    case.settle.retry_below(Path::new("/elsewhere"), case.now);
    case.pass(Duration::ZERO, Some(young(5)));
    assert_eq!(case.taken(), None);
    case.settle.retry_below(a().parent().unwrap(), case.now);
    case.pass(Duration::ZERO, Some(young(5)));
    assert_eq!(case.taken(), Some(5));
    case.settle.retry_below(a().parent().unwrap(), case.now);
    assert!(case.settle.next_due().is_none(), "what runs is left alone");
}
