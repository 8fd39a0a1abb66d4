//! Random events, against a model that only knows the content of the inbox. `HISTEQD_STEPS` sets
//! their number, `HISTEQD_SEED` the seed.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use super::service::{Service, drop_in, expected, from_environment, picture, wait_for};
use crate::harness::Place;
use crate::samples::Random;

struct World {
    place: Place,
    random: Random,
    service: Option<Service>,
    /// The files in the inbox, by name.
    files: BTreeMap<String, Vec<u8>>,
}

impl World {
    fn step(&mut self) {
        match self.random.below(12) {
            0..3 => {
                let (name, content) = (self.new_name(), self.content());
                drop_in(&self.place, &name, &content);
                self.files.insert(name, content);
            }
            3..6 => {
                let (name, content) = (self.new_name(), self.content());
                self.place.file(format!("in/{name}"), &content);
                self.files.insert(name, content);
            }
            6..8 => self.rename(),
            8 => self.rewrite(),
            9 => {
                if let Some(name) = self.some_name() {
                    fs::remove_file(self.place.path("in").join(&name)).unwrap();
                    self.files.remove(&name);
                }
            }
            10 => match self.service.take() {
                Some(service) => service.kill(),
                None => self.service = Some(Service::begin(&self.place, "--threads 2")),
            },
            _ => thread::sleep(Duration::from_millis(self.random.below(60))),
        }
    }

    fn rename(&mut self) {
        let Some(from) = self.some_name() else { return };
        let to = self.new_name();
        fs::create_dir_all(self.place.path("in").join(&to).parent().unwrap()).unwrap();
        fs::rename(self.place.path("in").join(&from), self.place.path("in").join(&to)).unwrap();
        let content = self.files.remove(&from).unwrap();
        self.files.insert(to, content);
    }

    /// Truncates a file and writes half of its new content, then does so with all of it, as a
    /// careless program would.
    fn rewrite(&mut self) {
        let Some(name) = self.some_name() else { return };
        let content = self.content();
        fs::write(self.place.path("in").join(&name), &content[..content.len() / 2]).unwrap();
        thread::sleep(Duration::from_millis(self.random.below(30)));
        fs::write(self.place.path("in").join(&name), &content).unwrap();
        self.files.insert(name, content);
    }

    /// Returns one of 24 names: few, so that they recur.
    fn new_name(&mut self) -> String {
        format!("{}/{}.pgm", self.random.below(3), self.random.below(8))
    }

    fn some_name(&mut self) -> Option<String> {
        let count = self.files.len() as u64;
        (count > 0).then(|| self.files.keys().nth(self.random.below(count) as usize).unwrap().clone())
    }

    fn content(&mut self) -> Vec<u8> {
        let seed = self.random.below(1 << 40);
        picture(seed, 8 + self.random.below(200) as usize)
    }
}

#[test]
fn whatever_happens_the_outputs_are_those_of_the_inbox_in_the_end() {
    let seed = from_environment("HISTEQD_SEED", 1);
    println!("HISTEQD_SEED={seed}");
    let place = Place::new();
    let service = Some(Service::start(&place, "--threads 2"));
    let mut world = World { place, random: Random(seed), service, files: BTreeMap::new() };
    for _ in 0..from_environment("HISTEQD_STEPS", 250) {
        world.step();
    }
    world.service.take().map(Service::stop);
    let _service = Service::start(&world.place, "--threads 2");
    wait_for(&world.place, &expected(&world.files));
}
