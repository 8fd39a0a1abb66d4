//! A browser that shows the page of a service: Chromium, driven by chromedriver through WebDriver
//! (<https://www.w3.org/TR/webdriver2/>).

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{LONG, server_or_skip};

/// The key of a found element's id in WebDriver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The key that moves a slider to its beginning.
pub(crate) const HOME: &str = "\u{e011}";

/// A running chromedriver; it is killed when dropped.
struct Driver {
    process: Child,
    port: u16,
}

impl Driver {
    /// Starts it; reports a skip and returns `None` if it is not installed.
    ///
    /// It takes a free port of IPv4 and then the same port of IPv6, and exits where another test's
    /// server has that one. So it is started again.
    fn start() -> Option<Self> {
        for _ in 0..10 {
            let command = Command::new("chromedriver")
                .arg("--port=0")
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn();
            let Ok(mut process) = command else {
                server_or_skip(false, "chromedriver");
                return None;
            };
            let mut told = BufReader::new(process.stdout.take().unwrap());
            if let Some(port) = port_of(&mut told) {
                // It must always be able to write its messages.
                thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
                return Some(Self { process, port });
            }
            process.wait().unwrap();
        }
        panic!("chromedriver ended ten times before it had a port");
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/session", self.port)
    }

    /// Sends a command, and returns the answer.
    fn ask(&self, path: &str, body: &Value) -> Value {
        let mut answer = ureq::post(format!("{}{path}", self.url()))
            .config()
            .http_status_as_error(false)
            .build()
            .content_type("application/json")
            .send(body.to_string())
            .unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        assert!(answer.status().is_success(), "{path}: {text}");
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        answer["value"].take()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads the messages of a driver up to the one that names its port; `None` if it ends before.
fn port_of(told: &mut impl BufRead) -> Option<u16> {
    let mut lines = told.lines().map(Result::unwrap);
    let port = |line: String| Some(line.split_once("started successfully on port ")?.1.to_owned());
    Some(lines.find_map(port)?.trim().trim_end_matches('.').parse().unwrap())
}

/// A browser that shows a page.
pub(crate) struct Page {
    driver: Driver,
    session: String,
}

impl Page {
    /// Opens a page; reports a skip and returns `None` without a browser.
    pub(crate) fn open(url: &str) -> Option<Self> {
        let driver = Driver::start()?;
        // The sandbox refuses to run as root.
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1000,900",
            // Names for pages of several sites, all of them here.
            "--host-resolver-rules=MAP *.example 127.0.0.1",
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}});
        let session = driver.ask("", &wanted)["sessionId"].as_str().expect("a browser").to_owned();
        let page = Self { driver, session };
        page.ask("/url", &json!({"url": url}));
        Some(page)
    }

    fn ask(&self, path: &str, body: &Value) -> Value {
        self.driver.ask(&format!("/{}{path}", self.session), body)
    }

    /// Returns the path of the first element that a selector of CSS names.
    fn find(&self, css: &str) -> String {
        let found = self.ask("/element", &json!({"using": "css selector", "value": css}));
        format!("/element/{}", found[ELEMENT].as_str().unwrap())
    }

    pub(crate) fn text(&self, css: &str) -> String {
        let text = self.evaluate(&format!("document.querySelector({css:?}).innerText"));
        text.as_str().unwrap().to_owned()
    }

    pub(crate) fn click(&self, css: &str) {
        self.ask(&format!("{}/click", self.find(css)), &json!({}));
    }

    /// Types text or keys into an element.
    pub(crate) fn type_into(&self, css: &str, text: &str) {
        self.ask(&format!("{}/value", self.find(css)), &json!({"text": text}));
    }

    pub(crate) fn evaluate(&self, script: &str) -> Value {
        self.ask("/execute/sync", &json!({"script": format!("return {script}"), "args": []}))
    }

    pub(crate) fn resize(&self, width: u32, height: u32) {
        self.ask("/window/rect", &json!({"width": width, "height": height}));
    }

    /// Waits until an expression holds on the page, which is never loaded again.
    pub(crate) fn wait(&self, script: &str) {
        let until = Instant::now() + LONG;
        while self.evaluate(script) != json!(true) {
            assert!(Instant::now() < until, "not true in time: {script}\n{}", self.text("body"));
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Closes the browser, which does not end with chromedriver.
        let _ = ureq::delete(format!("{}/{}", self.driver.url(), self.session)).call();
    }
}
