//! One picture into a file of its own, from standard input, and to standard output.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::harness::{BRIGHT, DULL, Place, Ran};

/// Runs a command with this standard input.
fn fed(mut command: Command, input: &[u8]) -> (Ran, Vec<u8>) {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end without reading all of it.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let written = output.stdout.clone();
    (Ran::from(output), written)
}

#[test]
fn an_output_with_a_pictures_name_is_a_file_whose_extension_chooses_the_format() {
    let place = Place::with(&["a.pgm"]);
    place.run("a.pgm --out b.pgm").exits(0).says("; look at b.pgm");
    assert_eq!(place.read("b.pgm"), BRIGHT);
    place.run("a.pgm --out new/folder/b.PNG").exits(0);
    assert_eq!(place.tree("new"), ["folder/b.PNG"]);
    assert!(place.read("new/folder/b.PNG").starts_with(b"\x89PNG"));
    let json = place.run("a.pgm --out c.tif --format tiff --json").exits(0).json();
    assert_eq!((&json["out"], &json["done"]), (&"c.tif".into(), &1.into()));
    assert!(place.read("c.tif").starts_with(b"II*\0"));
    place.file("my.toml", "format = \"bmp\"\n");
    place.run("a.pgm --out d.png --config my.toml").exits(0);
    assert!(place.read("d.png").starts_with(b"\x89PNG"), "the name is nearer than the configuration");
}

#[test]
fn an_output_file_is_replaced_whole_and_never_the_input() {
    let place = Place::with(&["a.pgm"]);
    place.file("b.pgm", "of an earlier run");
    place.run("a.pgm --out b.pgm").exits(0);
    assert_eq!(place.read("b.pgm"), BRIGHT);
    place.link("a.pgm", "link.pgm");
    for input in ["a.pgm", "link.pgm", "./a.pgm"] {
        place.run(&format!("{input} --out a.pgm")).exits(1).says("its output a.pgm would replace an input");
    }
    assert_eq!(place.read("a.pgm"), DULL);
    place.file("broken.pgm", "P5 broken");
    place.run("broken.pgm --out b.pgm").exits(1);
    assert_eq!(place.read("b.pgm"), BRIGHT);
    assert_eq!(place.tree(""), ["a.pgm", "b.pgm", "broken.pgm", "link.pgm"]);
}

#[test]
fn other_names_are_folders_and_so_are_those_that_exist_or_end_in_a_slash() {
    let place = Place::with(&["a.pgm", "there.png/b.pgm"]);
    place.run("a.pgm --out there.png").exits(0).says("look in there.png");
    place.run("a.pgm --out slash.png/").exits(0);
    place.run("a.pgm --out v1.2").exits(0);
    for output in ["there.png/a.pgm", "slash.png/a.pgm", "v1.2/a.pgm"] {
        assert_eq!(place.read(output), BRIGHT, "{output}");
    }
}

#[test]
fn a_pictures_name_for_several_outputs_is_refused_with_the_remedy() {
    let place = Place::with(&["in/a.pgm", "b.pgm"]);
    place.run("in --out x.png").exits(2).says(
        "--out x.png is the name of one picture, but in is a folder; for a folder, write --out x/ or --out x.png/",
    );
    place.run("in/a.pgm b.pgm --out x.png").exits(2).says("but there are 2 inputs; for a folder, write");
    place.run("--watch in --out x.png").exits(2).says("but --watch needs a folder");
    place.run("b.pgm --out x.png --resume").exits(2).says("but --resume needs a folder");
    place.run("b.pgm --out x.zarr").exits(2).says(
        "--out x.zarr: OME-Zarr is made of OME-Zarr only; name a file of another format, such as x.tif",
    );
    place.run("b.pgm --out x.zarr/ --dry-run").exits(0);
    place.run("b.pgm --out x.heic").exits(2).says("--out x.heic: that format is not written");
    place
        .run("b.pgm --out x.TGA")
        .exits(2)
        .says("--out x.TGA: that format is not written; for a folder, write --out x/ or --out x.TGA/");
    let ran = place.run("b.pgm --out x.png --format jpeg");
    ran.exits(2).says(
        "--out x.png is the name of a PNG, but --format is another; leave out --format, or name it x.jpg",
    );
    place.run("b.pgm --out x.png --format keep").exits(2).says("leave out --format\n");
    assert_eq!(place.tree(""), ["b.pgm", "in/a.pgm"]);
}

#[test]
fn standard_input_and_output_are_named_by_a_dash() {
    let place = Place::with(&["a.pgm"]);
    let (ran, written) = fed(place.histeqd("- --out -"), DULL);
    ran.exits(0).says("Done: 1 picture");
    assert_eq!(written, BRIGHT);
    let (ran, written) = fed(place.histeqd("- --out - --format png -v"), DULL);
    ran.exits(0).says("done: - -> - (cpu)");
    assert!(written.starts_with(b"\x89PNG") && written.ends_with(b"IEND\xaeB`\x82"));
    let (ran, written) = fed(place.histeqd("a.pgm --out - --quiet"), b"");
    ran.exits(0).is_silent();
    assert_eq!(written, BRIGHT);
    let (ran, written) = fed(place.histeqd("- --out b.pgm"), DULL);
    ran.exits(0);
    assert_eq!((written, place.read("b.pgm")), (Vec::new(), BRIGHT.to_vec()));
    let (ran, written) = fed(place.histeqd("histogram - --bins 1"), DULL);
    ran.exits(0);
    assert!(String::from_utf8(written).unwrap().contains("\n-,4,1,"));
}

#[test]
fn what_stands_on_standard_input_may_be_a_file_and_is_not_replaced() {
    let place = Place::with(&["a.pgm"]);
    let run = |line: &str| {
        let mut command = place.histeqd(line);
        command.stdin(File::open(place.path("a.pgm")).unwrap());
        Ran::from(command)
    };
    run("- --out b.pgm").exits(0);
    assert_eq!(place.read("b.pgm"), BRIGHT);
    run("- --out a.pgm").exits(1).says("its output a.pgm would replace an input");
    let mut command = place.histeqd("a.pgm --out -");
    command.stdout(File::options().append(true).open(place.path("a.pgm")).unwrap());
    Ran::from(command).exits(1).says("its output - would replace an input");
    assert_eq!(place.read("a.pgm"), DULL);
}

#[test]
fn limits_hold_for_standard_input_and_what_is_no_picture_is_a_failure() {
    let place = Place::new();
    let endless = |line: &str| {
        let mut command = place.histeqd(line);
        command.stdin(File::open("/dev/zero").unwrap());
        Ran::from(command)
    };
    endless("- --out a.png --max-bytes 1MiB")
        .exits(1)
        .says("too large: standard input exceeds the limit of 1048576 bytes; raise it with --max-bytes");
    for (input, why) in
        [(&b"text"[..], "not a picture"), (b"", "the file is empty"), (&DULL[..12], "damaged PNM")]
    {
        let (ran, written) = fed(place.histeqd("- --out -"), input);
        ran.exits(1).says(why);
        assert!(written.is_empty(), "half a picture is none");
    }
    assert_eq!(place.tree(""), [""; 0]);
}

#[test]
fn standard_input_and_output_that_make_no_sense_are_refused() {
    let place = Place::with(&["in/a.pgm", "b.pgm"]);
    for (line, why) in [
        ("- --out done", "standard input has no name, so --out has to name a file, such as done/result.png"),
        ("- --out in", "such as in/result.png"),
        ("- b.pgm --out done", "cannot be combined with other inputs"),
        ("in --out -", "--out - writes one picture to standard output, but in is a folder"),
        ("b.pgm in/a.pgm --out -", "but there are 2 inputs; name a folder"),
        ("b.pgm --out - --json", "--json writes to standard output, and so does --out -"),
        ("--watch - --out done", "--watch needs a folder, and `-` is standard input"),
        ("--watch in --out -", "but --watch needs a folder"),
    ] {
        let ran = place.run(line);
        ran.exits(2).says(why);
        assert!(ran.stdout().is_empty());
    }
    place.file("-", DULL);
    place.run("./- --out dash.pgm").exits(0);
    assert_eq!(place.read("dash.pgm"), BRIGHT);
}

#[test]
fn a_terminal_is_neither_read_nor_written() {
    let place = Place::with(&["a.pgm"]);
    let at_a_terminal = |line: &str| {
        let command = format!("'{}' {line}", crate::harness::binary());
        let ran = Ran::from(place.command("script", ["-qec", &command, "/dev/null"]));
        (ran.stdout(), ran)
    };
    let (told, ran) = at_a_terminal("a.pgm --out -");
    ran.exits(2);
    assert!(told.contains("would write a picture to the terminal"), "{told}");
    let (told, ran) = at_a_terminal("- --out b.png < /dev/tty");
    ran.exits(2);
    assert!(told.contains("`-` stands for standard input, which is the terminal"), "{told}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure_and_a_full_one_is() {
    let place = Place::with(&["a.pgm"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = place.histeqd("a.pgm --out -");
    command.stdout(writer);
    Ran::from(command).exits(0);
    let mut command = place.histeqd("a.pgm --out -");
    command.stdout(File::options().write(true).open("/dev/full").unwrap());
    Ran::from(command).exits(1).says("cannot write standard output: No space left on device");
}
