//! Refused uses of object storage, and their messages.

use super::server::{KEY, SECRET, bucket};
use crate::harness::{Place, Ran};

fn told(ran: &Ran) -> String {
    ran.stderr() + &ran.stdout()
}

#[test]
fn what_does_not_work_with_urls_is_said_before_anything_starts() {
    let place = Place::with(&["in/a.pgm"]);
    for (arguments, words) in [
        ("--watch in --out s3://b/out", "local folders cannot be watched together with object storage"),
        ("--watch s3://b/in in --out out", "--watch of in: local folders cannot be watched"),
        (
            "--watch s3://b/in --out out --after delete",
            "--after does not work with --watch of object storage",
        ),
        ("--watch s3://b/in --out out --listen 127.0.0.1:9464", "--listen does not work"),
        ("s3://b/in --files-from list --out out", "--files-from lists files of this machine"),
        ("--resume in --out s3://b/out", "--resume needs a local output folder"),
        ("--watch in --out out --failed s3://b/failed", "s3://b/failed is a URL"),
        ("--watch in --out out --after move:s3://b/done", "s3://b/done is a URL"),
        ("--watch in --out out --state s3://b/state", "s3://b/state is a URL"),
        ("in --out out --method match --reference s3://b/a.png", "s3://b/a.png is a URL"),
        ("histogram in/a.pgm --out s3://b/table.csv", "s3://b/table.csv is a URL"),
        ("in --out http://host/out", "object storage is s3://"),
        ("file:///in --out out", "object storage is s3://"),
        ("in --out s3://user:hidden@b/out", "credentials belong in the environment"),
        ("in --out s3:///out", "it names no bucket"),
    ] {
        let ran = place.run(arguments);
        ran.exits(2).says(words);
        assert!(!ran.stderr().contains("hidden"), "{ran}");
    }
    assert_eq!(place.tree(""), ["in/a.pgm"]);
}

#[test]
fn a_missing_bucket_and_wrong_credentials_are_named_with_a_remedy_and_no_secret() {
    let Some(bucket) = bucket() else { return };
    let place = Place::with(&["in/a.pgm"]);
    let input = bucket.run(&place, ["s3://no-such-bucket/in", "--out", "out"]);
    input.exits(1).says("s3://no-such-bucket/in: cannot be read: there is no such bucket; check its name");
    let output = bucket.run(&place, ["in", "--out", "s3://no-such-bucket/out"]);
    output.exits(3).says("--out s3://no-such-bucket/out cannot be used: there is no such bucket");

    let url = bucket.url("x");
    for (key, secret) in [(KEY, "wrong-secret"), ("unknown-key", SECRET)] {
        for arguments in [[&*url, "--out", "out"], ["in", "--out", &url]] {
            let mut command = bucket.command(&place, arguments);
            command.env("AWS_ACCESS_KEY_ID", key).env("AWS_SECRET_ACCESS_KEY", secret);
            let ran = Ran::from(command);
            ran.says("access denied").says("AWS_SECRET_ACCESS_KEY").says(&url);
            assert!(!told(&ran).contains(key) && !told(&ran).contains(secret), "{ran}");
        }
    }
}

#[test]
fn a_server_that_is_not_there_is_named_with_a_remedy() {
    let Some(mut bucket) = bucket() else { return };
    let place = Place::with(&["in/a.pgm"]);
    // A port without a server.
    bucket.through("http://127.0.0.1:9".to_owned());
    let ran = bucket.run(&place, ["in", "--out", &bucket.url("out")]);
    ran.exits(3).says("the server cannot be reached").says("AWS_ENDPOINT_URL").says("retries");
}
