//! The page of a running service, in a real browser: Chromium, driven by chromedriver. Without
//! these the tests are reported as skipped, or fail with `HISTEQD_REQUIRE_SERVERS=1`.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::thread;

use serde_json::json;

use super::service::{Service, drop_in, make_old};
use crate::browser::{HOME, Page};
use crate::harness::{DULL, Place, project, wait};
use crate::stacks::{self, Storage, plain};

/// A PNG that ends too early.
fn broken() -> Vec<u8> {
    [&b"\x89PNG\r\n\x1a\n"[..], &[0; 40]].concat()
}

fn address(service: &Service) -> SocketAddr {
    service.log().split_once("/status at http://").unwrap().1.lines().next().unwrap().parse().unwrap()
}

/// Returns the link that lets one browser change something.
fn way_in(service: &Service) -> String {
    let log = service.log();
    let (_, link) = log.split_once("opens it: ").expect("a link");
    link.lines().next().unwrap().to_owned()
}

/// Opens a page in a browser and checks it; returns at once if there is no browser.
fn with_page(url: &str, check: impl FnOnce(&Page)) {
    let Some(page) = Page::open(url) else { return };
    page.wait("document.getElementById('state').textContent.startsWith('running')");
    check(&page);
}

#[test]
fn what_is_done_and_what_fails_appears_on_the_page_and_can_be_retried_and_paused() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "--listen 127.0.0.1:0");
    wait("the output", || place.path("out/a.pgm").exists());
    with_page(&way_in(&service), |page| {
        // The slider shows more of one version, by keyboard too.
        page.wait("document.querySelectorAll('#latest img').length == 2");
        page.wait("[...document.querySelectorAll('#latest img')].every(image => image.complete && image.naturalWidth > 0)");
        page.type_into("#latest input[type=range]", HOME);
        page.wait("document.querySelector('.compare').style.getPropertyValue('--at') == '0%'");
        page.click("#latest summary");
        page.wait("document.querySelectorAll('#latest svg.histogram').length == 2");
        assert!(page.text("#latest .stages").contains("decode"));

        // A failure appears without a reload, and its name is text.
        let name = "<img src=x onerror=document.title='bad'>.png";
        place.file(format!("in/{name}"), broken());
        make_old(&place.path("in").join(name));
        page.wait("document.querySelectorAll('#failures tr').length == 1");
        assert!(page.text("#failures th").ends_with(name));
        assert_eq!(page.evaluate("document.title"), json!("histeqd"));
        assert_eq!(page.evaluate("document.querySelectorAll('#failures img').length"), json!(0));

        // It is retried and fails again; then it is mended in its place, and done.
        page.click("#failures button");
        page.wait("document.getElementById('message').textContent == '1 picture will be retried.'");
        drop_in(&place, name, DULL);
        page.wait("document.querySelectorAll('#failures tr').length == 0");

        page.click("#pause");
        page.wait("document.getElementById('state').textContent.startsWith('paused')");
        drop_in(&place, "b.pgm", DULL);
        page.wait("[...document.querySelectorAll('#counts div')].some(count => count.innerText.match(/^Waiting\\s+1$/))");
        assert!(!place.path("out/b.pgm").exists());
        place.run("status out").exits(0).prints(", paused; continue with `histeqd resume`");
        page.click("#pause");
        page.wait("document.getElementById('state').textContent.startsWith('running')");
        wait("the picture that waited", || place.path("out/b.pgm").exists());

        // The page fits into a narrow window.
        page.resize(400, 800);
        page.wait("document.documentElement.scrollWidth <= document.documentElement.clientWidth");
    });
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn settings_retries_and_parts_of_stacks_are_said_at_every_width() {
    let place = Place::new();
    let pages = [0, 1, 2].map(|number| stacks::Page::new(number, 64, 48));
    place.file("in/stack.tif", plain(&pages, Storage::Stored));
    place.file("my.toml", "method = 'clahe'\nstrength = 0.5\n");
    let service = Service::start(&place, "--listen 127.0.0.1:0 --config my.toml");
    wait("the output", || place.path("out/stack.tif").exists());
    let deep = format!("in/{}", ["a-folder-with-a-long-name"; 6].join("/"));
    // The path of its output leads through a link, which may go.
    let behind = place.path(format!("out/{}", &deep["in/".len()..]));
    fs::create_dir_all(&behind).unwrap();
    symlink(place.path("in"), behind.join("linked")).unwrap();
    place.file(format!("{deep}/linked/waits.pgm"), DULL);
    place.file(format!("{deep}/broken.png"), broken());
    make_old(&place.path(format!("{deep}/broken.png")));
    with_page(&way_in(&service), |page| {
        let settings = page.text("#settings");
        for words in ["method clahe, strength 0.5, ", "my.toml", "folders may have their own"] {
            assert!(settings.contains(words), "{settings}");
        }
        page.wait("document.querySelector('#latest .part')?.textContent == '; page 1 of 3 is shown'");
        page.wait("document.querySelectorAll('#retries tr').length == 1");
        let row = page.text("#retries tr");
        assert!(row.contains("waits.pgm") && row.contains("again "), "{row}");
        page.wait("document.querySelectorAll('#failures tr').length == 1");
        for width in [400, 700, 1200] {
            page.resize(width, 900);
            page.wait("document.documentElement.scrollWidth <= document.documentElement.clientWidth");
            // One line of text and its surroundings.
            page.wait("document.querySelector('#failures button').getBoundingClientRect().height < 45");
        }
    });
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn settings_of_a_folder_that_cannot_be_used_are_named_on_the_page() {
    let place = Place::with(&["in/a.pgm", "in/b/1.pgm"]);
    place.file("in/b/histeqd.toml", "mehtod = 'clahe'\n");
    let service = Service::start(&place, "--listen 127.0.0.1:0");
    with_page(&way_in(&service), |page| {
        page.wait(
            "document.getElementById('state').textContent.includes('histeqd.toml:1: unknown key `mehtod`')",
        );
    });
    place.file("in/b/histeqd.toml", "method = 'clahe'\n");
    wait("the picture that waited", || place.path("out/b/1.pgm").exists());
    with_page(&format!("http://{}/", address(&service)), |page| {
        page.wait("document.getElementById('state').textContent.startsWith('running, process')");
    });
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_thousand_failures_can_be_searched_on_the_page() {
    let place = Place::new();
    for number in 0..1000 {
        let name = format!("in/broken-{number:04}.png");
        place.file(&name, broken());
        make_old(&place.path(&name));
    }
    let service = Service::start(&place, "--listen 127.0.0.1:0");
    wait("all to fail", || place.run("status out --json").exits(0).json()["failed"] == 1000);
    with_page(&way_in(&service), |page| {
        page.wait(
            "document.getElementById('found').textContent.startsWith('1,000 pictures, newest 200 shown')",
        );
        assert_eq!(page.evaluate("document.querySelectorAll('#failures tr').length"), json!(200));
        page.type_into("#search", "BROKEN-0777");
        page.wait("document.querySelectorAll('#failures tr').length == 1");
        assert!(page.text("#failures th").ends_with("broken-0777.png"));
        page.click("#retry-all");
        page.wait("document.getElementById('message').textContent == '1,000 pictures will be retried.'");
    });
    assert_eq!(service.stop(), Some(0));
}

/// Sends a request with these header lines, and returns the answer.
fn request(service: &Service, line: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address(service)).unwrap();
    write!(stream, "{line} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", address(service)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn remarks_are_on_the_page_and_the_first_of_a_kind_is_in_the_log() {
    let place = Place::new();
    let photograph = fs::read(project().join("tests/data/jpeg/420.jpg")).unwrap();
    let video = [&photograph[..], b"\0\0\0\x18ftypmp42\0\0\0\0isommp42"].concat();
    ["in/a/1.jpg", "in/a/2.jpg"].into_iter().for_each(|name| place.file(name, &video));
    place.file("in/plain.jpg", [&photograph[..], b"\n"].concat());
    let service = Service::start(&place, "--listen 127.0.0.1:0");
    let activity = || request(&service, "GET /activity", "Connection: close\r\n");
    wait("all three", || activity().matches("\"number\":").count() == 3);
    let (answer, log) = (activity(), service.log());
    assert_eq!(answer.matches("\"remarks\":[\"motion photo's video removed").count(), 2, "{answer}");
    assert_eq!(answer.matches("\"remarks\":[]").count(), 1, "{answer}");
    let told = |level: &str| {
        let lines = log.lines().filter(|line| line.contains("motion photo's video removed"));
        lines.filter(|line| line.contains(level)).count()
    };
    assert_eq!((told(" INFO "), told(" DEBUG ")), (1, 1), "{log}");
    with_page(&way_in(&service), |page| {
        page.wait("document.querySelectorAll('#latest .remark').length == 2");
        page.wait("[...document.querySelectorAll('#latest .folder')].filter(folder => folder.textContent.endsWith('in/a/')).length == 2");
    });
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn no_page_of_another_origin_changes_anything() {
    let place = Place::with(&["in/a.pgm"]);
    let token = "a-token-of-their-own";
    place.file("token", format!("{token}\n"));
    let service = Service::start(&place, "--listen 127.0.0.1:0 --token-file token");
    assert!(!service.log().contains(token), "a token of a file is not logged");
    let own = format!("Origin: http://{}\r\n", address(&service));
    let bearer = format!("Authorization: Bearer {token}\r\n");
    for (headers, status) in [
        (format!("{bearer}Origin: http://evil.example\r\n"), 403),
        (format!("{bearer}Sec-Fetch-Site: cross-site\r\n"), 403),
        (format!("{bearer}{own}"), 200),
        // Being the same user on the same machine is not enough.
        (own.clone(), 403),
    ] {
        let answer = request(&service, "POST /pause", &headers);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{headers}{answer}");
    }
    for path in ["/activity", "/status", "/pictures/1/before.png"] {
        let read = |headers| request(&service, &format!("GET {path}"), headers);
        assert!(read("Sec-Fetch-Site: cross-site\r\n").starts_with("HTTP/1.1 403"), "{path}");
        assert!(!read("Sec-Fetch-Site: same-origin\r\n").starts_with("HTTP/1.1 403"), "{path}");
    }
    let page = request(&service, "GET /", "").to_lowercase();
    assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    place.run("resume out").exits(0).prints("resumed");
    assert_eq!(service.stop(), Some(0));
    place.run("pause out").exits(3).says("no service runs for");
}

#[test]
fn the_page_is_asked_by_no_name_but_its_own() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "--listen 127.0.0.1:0 --listen-name scans.example");
    for (host, status) in [("scans.example", 200), ("localhost:1", 200), ("evil.example", 421)] {
        let mut stream = TcpStream::connect(address(&service)).unwrap();
        write!(stream, "GET /status HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer}");
    }
    place.run("status out").exits(0).prints("process ");
    assert_eq!(service.stop(), Some(0));
    place.run("in --out out --listen-name a").exits(2).says("--listen-name has no effect without");
}

/// Serves one page to a browser, until the test ends; returns its port.
fn serve(html: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close", html.len());
            let _ = write!(stream, "{head}\r\nContent-Type: text/html\r\n\r\n{html}");
        }
    });
    port
}

#[test]
fn no_page_of_another_site_shows_a_preview() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "--listen 127.0.0.1:0 --listen-name scans.example");
    wait("the output", || place.path("out/a.pgm").exists());
    // Over plain HTTP, and by names that are not localhost, a browser does not say which site asks.
    let own = format!("http://scans.example:{}", address(&service).port());
    with_page(&own, |page| {
        page.wait("[...document.querySelectorAll('#latest img')].filter(image => image.naturalWidth > 0).length == 2");
    });
    let port = serve(format!(
        "<p id=state>running</p><img src='{own}/pictures/1/before.png' \
         onload=\"document.title = 'shown'\" onerror=\"document.title = 'kept out'\">"
    ));
    with_page(&format!("http://other.example:{port}"), |page| {
        page.wait("document.title != ''");
        assert_eq!(page.evaluate("document.title"), json!("kept out"));
    });
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn all_failures_are_listed_by_the_status_command() {
    let place = Place::new();
    for number in 0..30 {
        place.file(format!("in/{number}.png"), broken());
        make_old(&place.path(format!("in/{number}.png")));
    }
    let service = Service::start(&place, "");
    wait("all to fail", || place.run("status out --json").exits(0).json()["failed"] == 30);
    assert_eq!(place.run("status out --failures").exits(0).stdout().lines().count(), 30);
    let told = place.run("status out --failures --json").exits(0).json();
    assert!(told[0]["reason"].as_str().unwrap().contains("PNG") && told[29]["input"].is_string());
    assert_eq!(service.stop(), Some(0));
}
