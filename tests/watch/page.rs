//! The page of a running service, in a real browser: Chromium, driven by chromedriver. Without these the tests are reported as skipped, or
//! fail with HISTEQD_REQUIRE_SERVERS=1.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use fantoccini::key::Key;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::json;

use super::service::{Service, drop_in, make_old};
use crate::harness::{DULL, LONG, Place, server_or_skip, wait};

/// A PNG that ends too early.
fn broken() -> Vec<u8> {
    [&b"\x89PNG\r\n\x1a\n"[..], &[0; 40]].concat()
}

/// A running chromedriver; it is killed when dropped.
struct Driver {
    process: Child,
    port: u16,
}

impl Driver {
    fn start() -> Option<Self> {
        let command =
            Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut process) = command else {
            server_or_skip(false, "chromedriver");
            return None;
        };
        let mut told = BufReader::new(process.stdout.take().unwrap());
        let port = loop {
            let mut line = String::new();
            assert_ne!(told.read_line(&mut line).unwrap(), 0, "chromedriver has ended");
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                break port.trim().trim_end_matches('.').parse().unwrap();
            }
        };
        // It must always be able to write what it has to say.
        thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
        Some(Self { process, port })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A browser that shows the page.
struct Page(Client);

impl Page {
    async fn text(&self, css: &str) -> String {
        let found = self.0.find(Locator::Css(css)).await.unwrap();
        found.text().await.unwrap()
    }

    async fn click(&self, css: &str) {
        self.0.find(Locator::Css(css)).await.unwrap().click().await.unwrap();
    }

    async fn evaluate(&self, script: &str) -> serde_json::Value {
        self.0.execute(&format!("return {script}"), vec![]).await.unwrap()
    }

    /// Waits until an expression holds on the page, which is never loaded again.
    async fn wait(&self, script: &str) {
        let until = std::time::Instant::now() + LONG;
        while self.evaluate(script).await != json!(true) {
            let shown = self.text("body").await;
            assert!(std::time::Instant::now() < until, "not true in time: {script}\n{shown}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn address(service: &Service) -> SocketAddr {
    service.log().split_once("/status at http://").unwrap().1.lines().next().unwrap().parse().unwrap()
}

/// Returns the link that lets one browser change something.
fn way_in(service: &Service) -> String {
    let log = service.log();
    let (_, link) = log.split_once("without it: ").expect("a link");
    link.lines().next().unwrap().to_owned()
}

/// Opens the page of a service in a browser, which may change something, and uses it. Nothing if there is no browser.
fn with_page(service: &Service, check: impl AsyncFnOnce(&Page)) {
    let Some(driver) = Driver::start() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // The sandbox refuses to run as root.
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1000,900",
        ];
        let options = json!({"goog:chromeOptions": {"args": arguments}});
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(options.as_object().unwrap().clone());
        let client = builder.connect(&format!("http://127.0.0.1:{}", driver.port)).await.expect("a browser");
        client.goto(&way_in(service)).await.unwrap();
        let page = Page(client);
        page.wait("document.getElementById('state').textContent.startsWith('running')").await;
        check(&page).await;
        page.0.close().await.unwrap();
    });
}

#[test]
fn what_is_done_and_what_fails_appears_on_the_page_and_can_be_retried_and_paused() {
    let place = Place::with(&["in/a.pgm"]);
    let service = Service::start(&place, "--listen 127.0.0.1:0");
    wait("the output", || place.path("out/a.pgm").exists());
    with_page(&service, async |page| {
        // The slider shows more of one version, by keyboard too.
        page.wait("document.querySelectorAll('#latest img').length == 2").await;
        page.wait("[...document.querySelectorAll('#latest img')].every(image => image.complete && image.naturalWidth > 0)").await;
        let slider = page.0.find(Locator::Css("#latest input[type=range]")).await.unwrap();
        slider.send_keys(&Key::Home).await.unwrap();
        page.wait("document.querySelector('.compare').style.getPropertyValue('--at') == '0%'").await;
        page.click("#latest summary").await;
        page.wait("document.querySelectorAll('#latest svg.histogram').length == 2").await;
        assert!(page.text("#latest .stages").await.contains("decode"));

        // A failure appears without a reload, and its name is text.
        let name = "<img src=x onerror=document.title='bad'>.png";
        place.file(format!("in/{name}"), broken());
        make_old(&place.path("in").join(name));
        page.wait("document.querySelectorAll('#failures tr').length == 1").await;
        assert!(page.text("#failures th").await.ends_with(name));
        assert_eq!(page.evaluate("document.title").await, json!("histeqd"));
        assert_eq!(page.evaluate("document.querySelectorAll('#failures img').length").await, json!(0));

        // It is retried and fails again; then it is mended in its place, and done.
        page.click("#failures button").await;
        page.wait("document.getElementById('message').textContent == '1 picture is tried again.'").await;
        drop_in(&place, name, DULL);
        page.wait("document.querySelectorAll('#failures tr').length == 0").await;

        page.click("#pause").await;
        page.wait("document.getElementById('state').textContent.startsWith('paused')").await;
        drop_in(&place, "b.pgm", DULL);
        page.wait("[...document.querySelectorAll('#counts div')].some(count => count.innerText.match(/^Waiting\\s+1$/))").await;
        assert!(!place.path("out/b.pgm").exists());
        place.run("status out").exits(0).prints(", paused; `histeqd resume` goes on");
        page.click("#pause").await;
        page.wait("document.getElementById('state').textContent.startsWith('running')").await;
        wait("the picture that waited", || place.path("out/b.pgm").exists());

        // Nothing sticks out of a narrow window.
        page.0.set_window_size(400, 800).await.unwrap();
        page.wait("document.documentElement.scrollWidth <= document.documentElement.clientWidth").await;
    });
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn settings_of_a_folder_that_cannot_be_used_are_named_on_the_page() {
    let place = Place::with(&["in/a.pgm", "in/b/1.pgm"]);
    place.file("in/b/histeqd.toml", "mehtod = 'clahe'\n");
    let service = Service::start(&place, "--listen 127.0.0.1:0");
    with_page(&service, async |page| {
        page.wait(
            "document.getElementById('state').textContent.includes('histeqd.toml:1: unknown key `mehtod`')",
        )
        .await;
        place.file("in/b/histeqd.toml", "method = 'clahe'\n");
        page.wait("document.getElementById('state').textContent.startsWith('running, process')").await;
    });
    wait("the picture that waited", || place.path("out/b/1.pgm").exists());
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
    with_page(&service, async |page| {
        page.wait("document.getElementById('found').textContent.startsWith('1,000 pictures, of which the newest 200 are shown')").await;
        assert_eq!(page.evaluate("document.querySelectorAll('#failures tr').length").await, json!(200));
        let search = page.0.find(Locator::Css("#search")).await.unwrap();
        search.send_keys("BROKEN-0777").await.unwrap();
        page.wait("document.querySelectorAll('#failures tr').length == 1").await;
        assert!(page.text("#failures th").await.ends_with("broken-0777.png"));
        page.click("#retry-all").await;
        page.wait("document.getElementById('message').textContent == '1,000 pictures are tried again.'")
            .await;
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
