use super::*;
use crate::config::Existing;
use clap::CommandFactory;
use clap::error::ErrorKind;
use equalize::Method;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(format!("histeqd {line}").split(' '))
}

fn settings(line: &str) -> Settings {
    match parse(&format!("{line} --no-config")).unwrap().resolve().unwrap() {
        Invocation::Run(settings) => *settings,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_key_is_a_flag_whose_help_names_its_default() {
    let command = Cli::command();
    let defaults = toml::Table::try_from(Written::defaults()).unwrap();
    for (key, value) in defaults {
        let flag = command.get_arguments().find(|flag| flag.get_long() == Some(key.as_str()));
        let help = flag.unwrap_or_else(|| panic!("--{key} is no flag")).get_help().unwrap().to_string();
        let default = match value {
            toml::Value::String(text) => text,
            toml::Value::Boolean(false) => continue,
            toml::Value::Boolean(true) => "true".to_owned(),
            toml::Value::Array(list) if list.is_empty() => continue,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            other => panic!("{key} = {other}"),
        };
        assert!(help.ends_with(&format!("[default: {default}]")), "--{key}: {help}");
    }
}

#[test]
fn inputs_and_an_output_are_all_that_is_needed() {
    let settings = settings("a b/c -o out");
    assert_eq!(settings.inputs, [PathBuf::from("a"), PathBuf::from("b/c")]);
    assert_eq!(settings.out, PathBuf::from("out"));
    assert_eq!(settings.report, Report::default());
    assert!(!settings.dry_run);
}

#[test]
fn what_is_missing_or_wrong_is_a_usage_error() {
    let kind = |line| parse(line).unwrap_err().kind();
    assert_eq!(kind("a"), ErrorKind::MissingRequiredArgument);
    assert_eq!(kind("--out b"), ErrorKind::MissingRequiredArgument);
    assert_eq!(kind("a -o b --thread 2"), ErrorKind::UnknownArgument);
    assert_eq!(kind("a -o b --threads 0"), ErrorKind::ValueValidation);
    assert_eq!(kind("a -o b --quiet --verbose"), ErrorKind::ArgumentConflict);
    assert_eq!(kind("a -o b --no-config --config c"), ErrorKind::ArgumentConflict);
    assert_eq!(kind("a -o b --color purple"), ErrorKind::InvalidValue);
}

#[test]
fn switches_can_be_undone_and_lists_grow() {
    let existing = |line| settings(line).existing;
    assert_eq!(existing("a -o b --overwrite"), Existing::Overwrite);
    assert_eq!(existing("--overwrite a -o b"), Existing::Overwrite);
    assert_eq!(existing("a -o b --overwrite=false"), Existing::Skip);
    let selection = settings("a -o b --include *.png --include *.jpg").selection;
    assert!(["x.png", "x.jpg"].iter().all(|name| selection.takes_file(name.as_ref())));
    assert!(!selection.takes_file("x.tif".as_ref()));
}

#[test]
fn printing_the_configuration_needs_no_inputs() {
    let printed = parse("--print-config --no-config --quality 80").unwrap().resolve().unwrap();
    assert!(matches!(printed, Invocation::Print(text) if text.contains("quality = 80\n")));
}

#[test]
fn deterministic_leaves_what_devices_code_otherwise_to_the_processor() {
    assert_eq!(settings("a -o b").jpeg, JpegChoice::Auto);
    let deterministic = settings("a -o b --deterministic");
    assert_eq!((deterministic.jpeg, deterministic.deflate), (JpegChoice::Cpu, DeflateChoice::Cpu));
    assert_eq!(settings("a -o b").deflate, DeflateChoice::Auto);
    for other in ["--jpeg gpu", "--deflate cpu"] {
        let error = parse(&format!("a -o b --deterministic {other}")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ArgumentConflict);
    }
    let error = parse("a -o b --no-config --jpeg gpu --devices cpu").unwrap().resolve().unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
}

#[test]
fn flags_of_a_service_need_one() {
    let refused = |line: &str| parse(line).unwrap().resolve().unwrap_err().to_string();
    for flag in ["--after delete", "--failed bad", "--settle 1s", "--listen 127.0.0.1:1"] {
        let name = flag.split(' ').next().unwrap();
        let error = refused(&format!("a -o b --no-config {flag}"));
        assert_eq!(error, format!("{name} has no effect without --watch"));
        settings(&format!("--watch a -o b {flag}"));
    }
    assert_eq!(refused("a -o b --no-config --state c"), "--state has no effect without --watch or --resume");
    settings("--resume a -o b --state c");
    assert!(parse("--print-config --no-config --after delete").unwrap().resolve().is_ok());
    for flag in ["--json", "--overwrite", "--dry-run"] {
        assert_eq!(parse(&format!("--watch a -o b {flag}")).unwrap_err().kind(), ErrorKind::ArgumentConflict);
    }
}

#[test]
fn a_service_puts_no_inputs_aside_among_the_outputs() {
    for flag in ["--after move:./b", "--failed b/"] {
        let error = parse(&format!("--watch a -o b --no-config {flag}")).unwrap().resolve().unwrap_err();
        assert!(error.to_string().contains("is the output folder"), "{error}");
        assert!(matches!(error, Error::Usage(_)), "{error}");
    }
    settings("--watch a -o b --failed b/failed --after move:c");
}

#[test]
fn a_number_below_the_range_is_told_the_range() {
    let refused = |line: &str| parse(line).unwrap_err().to_string();
    for (flag, range) in [
        ("--clip-limit -1", "from 0 (no limit) to 1000000"),
        ("--quality -5", "from 1 to 100"),
        ("-j -1", "from 1 to 1024"),
        ("--threads 99999", "from 1 to 1024"),
        ("--tile-size -8", "at least 4"),
        ("--max-pixels -3", "a number of pixels"),
        ("--max-bytes -1", "a size in bytes"),
        ("--memory -4GiB", "a size in bytes"),
        ("--device-timeout -1s", "a time"),
        ("--gpu-idle -1s", "a time"),
        ("--settle -1", "a time"),
        ("--rescan -1", "a time"),
        ("--poll -1", "a time"),
    ] {
        let why = refused(&format!("a -o b {flag}"));
        assert!(why.contains(range), "{flag}: {why}");
    }
    assert!(refused("histogram a --bins -4").contains("-4 is not in 1..=65536"));
    for flag in ["max-pixels", "max-bytes", "memory", "device-timeout", "rescan", "poll"] {
        let why = refused(&format!("a -o b --{flag} 0"));
        assert!(why.contains("\"0\" is not at least 1"), "{flag}: {why}");
    }
}

#[test]
fn clahes_flags_need_clahe() {
    assert!(matches!(
        settings("a -o b --method clahe --tiles 4x4").picture.operation.method,
        Method::Clahe(_)
    ));
    let error = parse("a -o b --no-config --tiles 4x4").unwrap().resolve().unwrap_err();
    assert_eq!(error.to_string(), "--tiles has no effect without --method clahe");
    assert_eq!(parse("a -o b --tiles 4x4 --tile-size 9").unwrap_err().kind(), ErrorKind::ArgumentConflict);
}

#[test]
fn flags_of_a_format_need_that_format() {
    let refused = |line: &str| parse(&format!("a -o b --no-config {line}")).unwrap().resolve().unwrap_err();
    let why = refused("--quality 80 --format png").to_string();
    assert_eq!(why, "--quality has no effect without --format keep or jpeg");
    let why = refused("--png-level small --format jpeg").to_string();
    assert_eq!(why, "--png-level has no effect without --format keep or png");
    for line in
        ["--quality 80", "--quality 80 --format jpg", "--png-level small", "--format png --png-level small"]
    {
        settings(&format!("a -o b {line}"));
    }
}

#[test]
fn commands_stand_alone() {
    let devices = parse("devices").unwrap().resolve().unwrap();
    assert!(matches!(devices, Invocation::Command(Command::Devices)));
    assert_eq!(settings("./devices -o out").inputs, [PathBuf::from("./devices")]);
}

#[test]
fn a_name_that_no_file_of_settings_can_hold_is_refused() {
    let name = std::os::unix::ffi::OsStringExt::from_vec(b"a\xff".to_vec());
    for flag in ["--lut", "--reference"] {
        let words = ["histeqd", "in", "--out", "out", flag].map(std::ffi::OsString::from);
        let error =
            Cli::try_parse_from(words.into_iter().chain([std::ffi::OsString::clone(&name)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUtf8, "{flag}");
    }
}

#[test]
fn a_wrong_glob_is_a_usage_error() {
    let error = parse("a -o b --no-config --include a[").unwrap().resolve().unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
}

#[test]
fn timings_are_told_somewhere() {
    settings("a -o b --timings");
    settings("a -o b --timings --quiet --json");
    let error = parse("a -o b --no-config --timings --quiet").unwrap().resolve().unwrap_err();
    assert_eq!(error.to_string(), "--timings has no effect with --quiet unless --json is given");
}

#[test]
fn the_help_says_which_flags_are_keys() {
    let command = Cli::command();
    let headings = ["Picture", "Output", "Selection", "Resources", "Watching"];
    let flags = command
        .get_arguments()
        .filter(|flag| flag.get_help_heading().is_some_and(|own| headings.contains(&own)));
    let mut flags: Vec<_> = flags.filter_map(|flag| flag.get_long()).collect();
    flags.retain(|flag| !["deterministic", "split-channels"].contains(flag));
    flags.sort_unstable();
    let keys = toml::Table::try_from(Written::defaults()).unwrap();
    let mut keys: Vec<_> = keys.keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(flags, keys);
    assert!(headings.iter().all(|heading| AFTER_LONG.contains(heading)));
}

#[test]
fn the_short_help_has_the_everyday_flags_and_the_long_help_has_all() {
    let mut command = Cli::command().term_width(100);
    let short = command.render_help().to_string();
    assert!(short.lines().count() <= 60, "{} lines:\n{short}", short.lines().count());
    let long = command.render_long_help().to_string();
    let flags: Vec<_> = command.get_arguments().filter_map(Arg::get_long).collect();
    assert!(EVERYDAY.iter().all(|flag| flags.contains(flag)));
    for flag in flags {
        let has = |help: &str| {
            let line = format!("--{flag}");
            let is_it = |word: &str| word == line || word.starts_with(&format!("{line}["));
            help.lines()
                .any(|help| help.trim_start().starts_with('-') && help.split_whitespace().take(2).any(is_it))
        };
        assert!(has(&long), "--{flag} is not in the long help");
        assert_eq!(has(&short), EVERYDAY.contains(&flag) || ["help", "version"].contains(&flag), "--{flag}");
    }
}

#[test]
fn every_example_is_told_of_in_one_column() {
    for examples in [histogram::AFTER, bench::AFTER] {
        let lines = examples.lines().skip(1).take_while(|line| !line.is_empty());
        let told = |line: &str| line.rfind("  ").map(|gap| gap + 2).filter(|&column| column > 2);
        let columns: Vec<_> = lines.filter_map(told).collect();
        assert!(columns.len() > 3 && columns.iter().all(|column| *column == columns[0]), "{examples}");
    }
}
