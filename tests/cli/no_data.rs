//! No-data values with every method: pixels with one keep it, and no other pixel gets it.

use crate::harness::Place;

const WIDTH: usize = 64;
const HEIGHT: usize = 48;

/// Every way to map levels.
const METHODS: [&str; 8] = [
    "--method global",
    "--method global --strength 0.6",
    "--method stretch",
    "--method stretch --clip-low 2 --clip-high 2",
    "--method match --reference reference.pgm",
    "--method clahe",
    "--method clahe --clip-limit 2 --tiles 3x2",
    "--method global --color per-channel",
];

/// Returns a PNM of a picture with a border of the level `none`. It has few levels: some of them
/// become the least and the greatest.
fn pnm(colours: usize, bytes: usize, none: u16) -> Vec<u8> {
    let level = |at: usize| match (at / 3) % WIDTH {
        0..20 => none,
        x => (40 + (at / WIDTH * 7 + x * 5) % 90 + none as usize / 2) as u16,
    };
    let samples = (0..WIDTH * HEIGHT).flat_map(|at| vec![level(at); colours]);
    let raster = samples.flat_map(|sample| sample.to_be_bytes()[2 - bytes..].to_vec());
    let magic = if colours == 1 { "P5" } else { "P6" };
    let header = format!("{magic}\n{WIDTH} {HEIGHT}\n{}\n", (1_u32 << (8 * bytes)) - 1);
    header.into_bytes().into_iter().chain(raster).collect()
}

/// Returns the pixels after the header of a PNM.
fn pixels(file: &[u8], pixel: usize) -> Vec<Vec<u8>> {
    file[file.len() - WIDTH * HEIGHT * pixel..].chunks_exact(pixel).map(<[u8]>::to_vec).collect()
}

#[test]
fn no_method_makes_holes_or_fills_them() {
    let place = Place::new();
    for (colours, bytes) in [(1, 1), (3, 1), (1, 2), (3, 2)] {
        let pixel = colours * bytes;
        let top = ((1_u32 << (8 * bytes)) - 1) as u16;
        for none in [0, top, 77] {
            let picture = pnm(colours, bytes, none);
            let before = pixels(&picture, pixel);
            let hole = none.to_be_bytes()[2 - bytes..].repeat(colours);
            place.file("a.ppm", &picture);
            place.file("reference.pgm", pnm(1, bytes, none));
            for method in METHODS {
                place.run(&format!("a.ppm --out out.ppm --overwrite --no-data {none} {method}")).exits(0);
                let after = pixels(&place.read("out.ppm"), pixel);
                let is_hole = |pixel: &Vec<u8>| *pixel == hole;
                assert!(
                    before.iter().map(is_hole).eq(after.iter().map(is_hole)),
                    "{colours}x{bytes} {none} {method}"
                );
            }
        }
    }
}
