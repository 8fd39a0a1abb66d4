//! Kills at random moments. `HISTEQD_KILLS` sets their number, `HISTEQD_SEED` the seed of the
//! random numbers.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use super::service::{
    Service, drop_in, expected, from_environment, make_old, outputs, picture, times_done, wait_for,
};
use crate::harness::Place;
use crate::samples::Random;

const AFTER_KEEP: &str = "--threads 2 --memory 64MiB";

#[test]
fn after_any_number_of_kills_every_input_has_one_whole_output() {
    let kills = from_environment("HISTEQD_KILLS", 15);
    let seed = from_environment("HISTEQD_SEED", 1);
    println!("HISTEQD_SEED={seed}");
    let mut random = Random(seed);
    let place = Place::new();
    let mut inputs = BTreeMap::new();
    for kill in 0..kills {
        let service = Service::begin(&place, AFTER_KEEP);
        let lives = Duration::from_millis(20 + random.below(400));
        thread::scope(|scope| {
            scope.spawn(|| thread::sleep(lives));
            for number in 0..3 + random.below(5) {
                let name = format!("{}/{kill}-{number}.pgm", random.below(3));
                let content = picture(random.below(1 << 40), 200 + random.below(600) as usize);
                if random.below(3) == 0 {
                    fs::create_dir_all(place.path("in").join(&name).parent().unwrap()).unwrap();
                    fs::write(place.path("in").join(&name), &content).unwrap();
                } else {
                    drop_in(&place, &name, &content);
                }
                inputs.insert(name, content);
                thread::sleep(Duration::from_millis(random.below(20)));
            }
        });
        service.kill();
    }
    // A recent temporary file is kept: it may belong to a process that cannot be seen from here.
    for name in outputs(&place).iter().filter(|name| name.ends_with(".tmp")) {
        make_old(&place.path("out").join(name));
    }
    // Some may have been in progress at three kills in a row.
    place.run("retry out").exits(0);
    let service = Service::start(&place, AFTER_KEEP);
    wait_for(&place, &expected(&inputs));
    let log = service.log();
    assert_eq!(service.stop(), Some(0));
    assert_eq!(
        outputs(&place),
        inputs.keys().cloned().collect::<Vec<_>>(),
        "no temporary files, nothing else"
    );
    for name in inputs.keys() {
        assert!(times_done(&log, name) <= 1, "{name} was done again after its output was there");
    }
}
