//! Places of the pages of a stack among channels, slices and times, by the first description.
//!
//! That is OME-XML, ImageJ's or tifffile's.

use std::str;

use crate::formats::tiff::describe::arrangement::{self, attribute, elements, is_of};
use crate::formats::tiff::describe::imagej;

/// The places of all pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// All are slices of one channel and time.
    One,
    /// Pages follow each other along these axes, the fastest one first.
    Grid(Vec<Axis>),
    /// Each page has its place; `None` if it is not known.
    Described {
        /// Whether there are several channels.
        has_channels: bool,
        /// The pages.
        pages: Vec<Option<Coordinates>>,
    },
    /// There are several times, and pages without a known time, but one channel.
    OneChannel,
    /// There are several channels, and pages without a known channel.
    Unknown,
}

/// A dimension that pages follow each other along, and its size in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) dimension: Dimension,
    pub(crate) size: u64,
}

/// The meaning of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dimension {
    Channel,
    Slice,
    /// Times, positions and the like.
    Other,
}

/// The place of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coordinates {
    /// The image, the place along all dimensions but the next two, and the channel.
    pub(crate) volume: (u64, u64, u32),
    /// The number of the slice.
    pub(crate) slice: u64,
}

impl Order {
    /// Returns the order of so many pages, each of `samples` channels, by a description.
    ///
    /// `numbers` are the numbers of the pages that are pictures among all of the file.
    pub(crate) fn new(description: &[u8], numbers: &[usize], pages: u64, samples: usize) -> Self {
        if imagej::is_description(description) {
            return of_imagej(description, pages);
        }
        if arrangement::is_ome(description) {
            return of_ome(description, numbers);
        }
        let series = arrangement::series(description);
        series.map_or(Self::One, |series| of_axes(&series.shape, &series.axes, pages, samples))
    }

    /// Returns the channel of a page.
    pub(crate) fn channel(&self, page: usize) -> Option<u32> {
        match self {
            Self::One | Self::OneChannel | Self::Described { has_channels: false, .. } => Some(0),
            Self::Grid(_) | Self::Described { .. } => self.coordinates(page).map(|of_page| of_page.volume.2),
            Self::Unknown => None,
        }
    }

    /// Returns the place of a page.
    pub(crate) fn coordinates(&self, page: usize) -> Option<Coordinates> {
        match self {
            Self::One => Some(Coordinates { slice: page as u64, ..Coordinates::default() }),
            Self::Grid(axes) => Some(in_grid(axes, page as u64)),
            Self::Described { pages, .. } => pages.get(page).copied().flatten(),
            Self::OneChannel | Self::Unknown => None,
        }
    }

    /// Returns the order of so many pages that follow each other along these axes.
    fn of_grid(axes: Vec<Axis>, pages: u64) -> Self {
        match (has_several(&axes, Dimension::Channel), has_several(&axes, Dimension::Other)) {
            (false, false) => Self::One,
            _ if count(&axes) == pages => Self::Grid(axes),
            (false, true) => Self::OneChannel,
            (true, _) => Self::Unknown,
        }
    }
}

fn has_several(axes: &[Axis], wanted: Dimension) -> bool {
    axes.iter().any(|axis| axis.dimension == wanted && axis.size > 1)
}

/// Returns the number of pages along some axes.
fn count<'a>(axes: impl IntoIterator<Item = &'a Axis>) -> u64 {
    axes.into_iter().fold(1, |product, axis| product.saturating_mul(axis.size))
}

fn in_grid(axes: &[Axis], page: u64) -> Coordinates {
    let (mut of_page, mut left) = (Coordinates::default(), page);
    let (mut slices, mut others) = (1, 1);
    for &Axis { dimension, size } in axes {
        let at = left % size;
        left /= size;
        match dimension {
            Dimension::Channel => of_page.volume.2 = at as u32,
            Dimension::Slice => (of_page.slice, slices) = (of_page.slice + at * slices, slices * size),
            Dimension::Other => (of_page.volume.1, others) = (of_page.volume.1 + at * others, others * size),
        }
    }
    of_page
}

/// Returns the order by ImageJ's description.
///
/// It states the numbers of channels, slices and frames, and which change first if these are not
/// the channels.
fn of_imagej(description: &[u8], pages: u64) -> Order {
    let stated = imagej::value(description, "order").unwrap_or("czt").to_ascii_lowercase();
    let is_usual = stated.len() != 3 || !"czt".chars().all(|axis| stated.contains(axis));
    let order = if is_usual { "czt" } else { &stated };
    let axes = order.chars().map(|axis| {
        let (dimension, name) = match axis {
            'c' => (Dimension::Channel, "channels"),
            'z' => (Dimension::Slice, "slices"),
            _ => (Dimension::Other, "frames"),
        };
        Axis { dimension, size: imagej::number(description, name).unwrap_or(1).max(1) }
    });
    let mut axes: Vec<_> = axes.collect();
    let is_other = |axis: &Axis| axis.dimension != Dimension::Channel;
    if count(axes.iter().filter(|axis| is_other(axis))) == pages {
        // The channels, if there are several, are samples of a page, as Bio-Formats counts them.
        axes.retain(is_other);
    }
    match Order::of_grid(axes, pages) {
        // ImageJ itself ignores numbers that do not fit.
        Order::Unknown => Order::OneChannel,
        order => order,
    }
}

/// Returns the order by tifffile's axes.
///
/// The last axes before a page are those along which pages follow each other; a page's samples may
/// be the channels.
fn of_axes(shape: &[u64], axes: &str, pages: u64, samples: usize) -> Order {
    let Some(page) = axes.find('Y').filter(|_| axes.len() == shape.len()) else { return Order::One };
    let has_slices = axes.contains('Z');
    let found = axes.chars().zip(shape).take(page).filter_map(|(axis, &size)| {
        let dimension = match axis {
            'S' => return None,
            'C' if samples > 1 => return None,
            'C' => Dimension::Channel,
            'Z' => Dimension::Slice,
            // Series of pictures, and axes without a name, are slices where there are no others.
            'I' | 'Q' if !has_slices => Dimension::Slice,
            _ => Dimension::Other,
        };
        Some(Axis { dimension, size })
    });
    let mut found: Vec<_> = found.collect();
    found.reverse();
    Order::of_grid(found, pages)
}

/// The planes of one image of OME-XML.
#[derive(Clone, Copy)]
struct Planes {
    /// The dimensions, beginning with the one that changes from plane to plane.
    order: [u8; 3],
    /// Sizes in channels, slices and times.
    sizes: [u64; 3],
}

impl Planes {
    fn read(pixels: &str) -> Option<Self> {
        let order = attribute(pixels, "DimensionOrder")?.as_bytes().strip_prefix(b"XY")?;
        let sizes = ["SizeC", "SizeZ", "SizeT"].map(|name| attribute(pixels, name)?.parse().ok());
        let [Some(channels), Some(slices), Some(times)] = sizes else { return None };
        Some(Self {
            order: order.try_into().ok()?,
            sizes: [channels, slices, times].map(|size: u64| size.max(1)),
        })
    }

    fn size(&self, dimension: u8) -> u64 {
        self.sizes[b"CZT".iter().position(|&other| other == dimension).unwrap_or(0)]
    }

    fn count(&self) -> u64 {
        self.sizes.iter().fold(1, |product, &size| product.saturating_mul(size))
    }

    /// Returns how many planes follow each other before a dimension goes on.
    fn run(&self, dimension: u8) -> u64 {
        let before = self.order.iter().take_while(|&&other| other != dimension);
        before.fold(1, |product, &other| product.saturating_mul(self.size(other)))
    }

    /// Returns the place of the plane with this number in image number `image`.
    fn coordinates(&self, image: u64, plane: u64) -> Option<Coordinates> {
        let [channel, slice, time] =
            [b'C', b'Z', b'T'].map(|dimension| plane / self.run(dimension) % self.size(dimension));
        Some(Coordinates { volume: (image, time, channel.try_into().ok()?), slice })
    }
}

/// Planes that follow each other, and their pages, from the first on.
struct Block {
    plane: u64,
    page: u64,
    count: u64,
}

impl Block {
    /// Reads an element TiffData.
    fn read(data: &str, planes: &Planes) -> Option<Self> {
        let number = |name| attribute(data, name).map_or(Some(0), |value| value.parse::<u64>().ok());
        let firsts = [(b'C', number("FirstC")?), (b'Z', number("FirstZ")?), (b'T', number("FirstT")?)];
        let offset = |(dimension, first): (u8, u64)| planes.run(dimension).saturating_mul(first);
        let plane = firsts.into_iter().map(offset).fold(0, u64::saturating_add);
        let count = attribute(data, "PlaneCount").or_else(|| attribute(data, "NumPlanes"));
        let count = match count {
            Some(count) => count.parse().ok()?,
            None if attribute(data, "IFD").is_some() => 1,
            None => planes.count(),
        };
        Some(Self { plane, page: number("IFD")?, count })
    }
}

/// Returns the order by OME-XML of the pages with these numbers in the file.
fn of_ome(xml: &[u8], numbers: &[usize]) -> Order {
    let Ok(text) = str::from_utf8(xml) else { return Order::Unknown };
    let own = elements(text).find(|element| is_of(element, "OME")).and_then(|root| attribute(root, "UUID"));
    if arrangement::is_elsewhere(xml) || own.is_none() && arrangement::has_several_files(xml) {
        return Order::Unknown;
    }
    if is_one_in_ome(text) {
        return Order::One;
    }
    let mut described = Described::new(numbers.last().map_or(0, |last| last + 1));
    let mut all = elements(text).peekable();
    while let Some(element) = all.next() {
        described.add(element, all.peek().copied().unwrap_or_default(), own);
    }
    let pages = numbers.iter().map(|&number| described.pages[number]).collect();
    Order::Described { has_channels: described.has_channels, pages }
}

/// Returns whether OME-XML describes one image of one channel and time.
///
/// The samples of a pixel count as channels.
fn is_one_in_ome(xml: &str) -> bool {
    let mut pixels = elements(xml).filter(|element| is_of(element, "Pixels"));
    let mut channels = elements(xml).filter(|element| is_of(element, "Channel"));
    let number = |element, name| attribute(element, name).and_then(|value| value.trim().parse::<u64>().ok());
    let (Some(first), None) = (pixels.next(), pixels.next()) else { return false };
    let samples = channels.next().and_then(|channel| number(channel, "SamplesPerPixel")).unwrap_or(1);
    number(first, "SizeT").is_none_or(|times| times <= 1)
        && number(first, "SizeC").is_none_or(|channels| channels <= samples)
}

/// The places of pages found so far, while the elements are gone through.
struct Described {
    pages: Vec<Option<Coordinates>>,
    /// Whether any image has several channels.
    has_channels: bool,
    /// How many images have begun.
    images: u64,
    /// The planes of the current image.
    planes: Option<Planes>,
    /// Whether it has had an element Channel.
    has_channel: bool,
    /// Whether it has had an element about the places of planes.
    has_data: bool,
}

impl Described {
    fn new(pages: usize) -> Self {
        Self {
            pages: vec![None; pages],
            has_channels: false,
            images: 0,
            planes: None,
            has_channel: false,
            has_data: false,
        }
    }

    /// Takes an element, with the `next` one.
    ///
    /// `own` is the identity of the file.
    fn add(&mut self, element: &str, next: &str, own: Option<&str>) {
        if is_of(element, "Pixels") {
            self.has_channels |= attribute(element, "SizeC").is_none_or(|size| size.trim() != "1");
            self.images += 1;
            (self.planes, self.has_channel, self.has_data) = (Planes::read(element), false, false);
        } else if is_of(element, "Channel") && !self.has_channel {
            self.has_channel = true;
            self.count_samples(element);
        } else if is_of(element, "TiffData") {
            self.has_data = true;
            let block = self.planes.and_then(|planes| Block::read(element, &planes));
            self.note(block.filter(|_| is_here(next, own)));
        } else if element.strip_prefix('/').is_some_and(|ended| is_of(ended, "Pixels")) && !self.has_data {
            let count = self.planes.map_or(0, |planes| planes.count());
            self.note(Some(Block { plane: 0, page: 0, count }));
        }
    }

    /// Takes samples of a page that are one channel out of an image's number of channels.
    fn count_samples(&mut self, channel: &str) {
        let samples = attribute(channel, "SamplesPerPixel").and_then(|samples| samples.parse().ok());
        if let Some(planes) = &mut self.planes {
            planes.sizes[0] = (planes.sizes[0] / u64::max(samples.unwrap_or(1), 1)).max(1);
        }
    }

    fn note(&mut self, block: Option<Block>) {
        let (Some(planes), Some(block)) = (self.planes, block) else { return };
        let first = usize::try_from(block.page).unwrap_or(usize::MAX).min(self.pages.len());
        let numbers = block.plane..block.plane.saturating_add(block.count);
        let pages = self.pages[first..].iter_mut().zip(numbers);
        pages.for_each(|(page, plane)| *page = planes.coordinates(self.images, plane));
    }
}

/// Returns whether planes are in the file of this identity, by the element after TiffData.
fn is_here(next: &str, own: Option<&str>) -> bool {
    let uuid = next.split_once('>').filter(|_| is_of(next, "UUID"));
    uuid.zip(own).is_none_or(|((_, uuid), own)| uuid.trim_end_matches('<').trim() == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channels(description: &str, pages: usize) -> Vec<Option<u32>> {
        let numbers: Vec<_> = (0..pages).collect();
        let order = Order::new(description.as_bytes(), &numbers, pages as u64, 1);
        numbers.iter().map(|&page| order.channel(page)).collect()
    }

    /// Returns the numbers of volume and slice of each page; `None` unless all are known.
    fn slices(description: &str, pages: usize) -> Option<Vec<(usize, usize)>> {
        let numbers: Vec<_> = (0..pages).collect();
        let order = Order::new(description.as_bytes(), &numbers, pages as u64, 1);
        let all: Vec<_> = numbers.iter().map(|&page| order.coordinates(page)).collect::<Option<_>>()?;
        let mut known = Vec::new();
        for of_page in &all {
            if !known.contains(&of_page.volume) {
                known.push(of_page.volume);
            }
        }
        let number = |volume| known.iter().position(|&other| other == volume).unwrap();
        Some(all.iter().map(|of_page| (number(of_page.volume), of_page.slice as usize)).collect())
    }

    fn known<const N: usize>(channels: [u32; N]) -> Vec<Option<u32>> {
        channels.map(Some).to_vec()
    }

    #[test]
    fn imagej_tells_of_channels_that_come_first_unless_it_says_otherwise() {
        let of = |rest: &str| format!("ImageJ=1.53\nimages=12\nchannels=2\nslices=3\nframes=2\n{rest}\0");
        let first = known([0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(channels(&of(""), 12), first);
        assert_eq!(channels(&of("order=ctz\n"), 12), first);
        assert_eq!(channels(&of("order=zct\n"), 12), known([0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]));
        assert_eq!(channels(&of("order=ztc\n"), 12), known([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]));
        assert_eq!(channels(&of("order=tcz\n"), 12), known([0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]));
        assert_eq!(channels(&of(""), 5), known([0; 5]), "the numbers do not fit");
        assert_eq!(channels("ImageJ=1.53\nimages=3\nslices=3\n\0", 3), known([0; 3]));
        assert_eq!(channels(&of(""), 6), known([0; 6]), "the channels are samples of a page");
    }

    #[test]
    fn axes_tell_of_channels_between_others() {
        let of = |axes: &str, shape: &str| format!("{{\"shape\": {shape}, \"axes\": \"{axes}\"}}\0");
        assert_eq!(channels(&of("TCYX", "[2, 3, 8, 9]"), 6), known([0, 1, 2, 0, 1, 2]));
        assert_eq!(channels(&of("CZYX", "[2, 3, 8, 9]"), 6), known([0, 0, 0, 1, 1, 1]));
        assert_eq!(channels(&of("ZYX", "[6, 8, 9]"), 6), known([0; 6]));
        assert_eq!(channels(&of("TYXC", "[6, 8, 9, 2]"), 6), known([0; 6]));
        assert_eq!(channels(&of("CYX", "[2, 8, 9]"), 6), vec![None; 6], "another series follows");
    }

    #[test]
    fn ome_tells_by_order_or_block_by_block() {
        let ome = |pixels: &str, data: &str| {
            format!(
                "<OME UUID=\"urn:uuid:a\"><Image><Pixels ID=\"0\" {pixels} SizeX=\"9\">{data}</Pixels></Image></OME>"
            )
        };
        let sizes = "SizeC=\"2\" SizeZ=\"3\" SizeT=\"1\"";
        let zct = format!("DimensionOrder=\"XYZCT\" {sizes}");
        for data in ["", "<TiffData/>", "<Channel/><Channel/><TiffData IFD=\"0\" PlaneCount=\"6\"/>"] {
            assert_eq!(channels(&ome(&zct, data), 6), known([0, 0, 0, 1, 1, 1]), "{data}");
        }
        let czt = format!("DimensionOrder=\"XYCZT\" {sizes}");
        assert_eq!(channels(&ome(&czt, "<TiffData/>"), 6), known([0, 1, 0, 1, 0, 1]));
        let of_samples = "DimensionOrder=\"XYCZT\" SizeC=\"6\" SizeZ=\"3\" SizeT=\"1\"";
        let data = "<Channel SamplesPerPixel=\"3\"/><Channel SamplesPerPixel=\"3\"/><TiffData/>";
        assert_eq!(channels(&ome(of_samples, data), 6), known([0, 1, 0, 1, 0, 1]));
        let blocks = "<TiffData IFD=\"0\" FirstC=\"1\" FirstZ=\"2\"/><TiffData FirstC=\"0\" IFD=\"2\" PlaneCount=\"2\"/>\
                      <TiffData IFD=\"9\" PlaneCount=\"99\"/>";
        assert_eq!(channels(&ome(&zct, blocks), 4), [Some(1), None, Some(0), Some(0)]);
        let file = |uuid: &str| format!("<UUID FileName=\"f\">urn:uuid:{uuid}</UUID></TiffData>");
        let files = ["a", "b"].map(|uuid| format!("<TiffData FirstC=\"1\" IFD=\"0\">{}", file(uuid)));
        let other = format!("<TiffData FirstC=\"0\" IFD=\"0\">{}", file("b"));
        assert_eq!(channels(&ome(&zct, &(files[0].clone() + &other)), 1), [Some(1)]);
        assert_eq!(channels(&ome(&zct, &files[1]), 1), [None]);
        assert_eq!(channels("<OME><BinaryOnly MetadataFile=\"x\"/></OME>", 2), [None, None]);
        assert_eq!(channels(&ome("SizeC=\"1\"", ""), 2), known([0, 0]));
        assert_eq!(channels(&ome("SizeC=\"2\"", ""), 2), [None, None], "no order");
    }

    #[test]
    fn channels_and_times_are_volumes_of_their_own() {
        let ome = |sizes: &str, channel: &str| {
            format!(
                "<?xml version=\"1.0\"?><OME><Image><Pixels ID=\"0\" DimensionOrder=\"XYCZT\" {sizes}>{channel}</Pixels></Image></OME>"
            )
        };
        let one = "SizeC=\"1\" SizeZ=\"4\" SizeT=\"1\"";
        for text in [
            "ImageJ=1.53\nimages=4\nslices=4\n\0".to_owned(),
            "ImageJ=1.53\nimages=4\nchannels=1\nslices=4\nframes=1\n\0".to_owned(),
            "{\"shape\": [4, 5, 4], \"axes\": \"ZYX\"}".to_owned(),
            "{\"shape\": [1, 4, 1, 5, 4], \"axes\": \"TZCYX\"}".to_owned(),
            "{\"shape\": [4, 5, 4]}".to_owned(),
            "a scan".to_owned(),
            ome(one, ""),
            ome("SizeC=\"3\" SizeZ=\"4\" SizeT=\"1\"", "<Channel SamplesPerPixel=\"3\"/>"),
        ] {
            assert_eq!(slices(&text, 4), Some(vec![(0, 0), (0, 1), (0, 2), (0, 3)]), "{text}");
        }
        let interleaved = Some(vec![(0, 0), (1, 0), (0, 1), (1, 1)]);
        let apart = Some(vec![(0, 0), (0, 1), (1, 0), (1, 1)]);
        let of_both = ome("SizeC=\"2\" SizeZ=\"2\" SizeT=\"1\"", "<Channel SamplesPerPixel=\"1\"/>");
        let of_times = ome("SizeC=\"1\" SizeZ=\"2\" SizeT=\"2\"", "");
        let image = "<Image><Pixels DimensionOrder=\"XYCZT\" SizeC=\"1\" SizeZ=\"2\" SizeT=\"1\"><TiffData IFD=\"2\" PlaneCount=\"2\"/></Pixels></Image>";
        let two = of_times.replace("SizeT=\"2\">", "SizeT=\"1\"><TiffData IFD=\"0\" PlaneCount=\"2\"/>");
        let two = two.replace("</OME>", &format!("{image}</OME>"));
        for (text, expected) in [
            ("ImageJ=1.53\nimages=4\nchannels=2\nslices=2\n\0".to_owned(), &interleaved),
            ("ImageJ=1.53\nimages=4\nslices=2\nframes=2\0".to_owned(), &apart),
            ("ImageJ=\nimages=12\nchannels=3\nslices=2\nframes=2\n\0".to_owned(), &apart),
            ("{\"shape\": [2, 2, 5, 4], \"axes\": \"CZYX\"}".to_owned(), &apart),
            ("{\"shape\": [2, 2, 5, 4], \"axes\": \"ZTYX\"}".to_owned(), &interleaved),
            ("{\"shape\": [2, 2, 5, 4], \"axes\": \"QZYX\"}".to_owned(), &apart),
            ("{\"shape\": [2, 2, 5, 4], \"axes\": \"ZQYX\"}".to_owned(), &interleaved),
            (of_both, &interleaved),
            (of_times, &apart),
            (two, &apart),
        ] {
            assert_eq!(slices(&text, 4), *expected, "{text}");
        }
        for text in [
            "ImageJ=1.53\nimages=6\nchannels=2\nslices=3\n\0".to_owned(),
            "{\"shape\": [3, 2, 5, 4], \"axes\": \"TZYX\"}".to_owned(),
            ome("SizeC=\"2\" SizeZ=\"1\" SizeT=\"1\"", "<TiffData IFD=\"0\"/>"),
        ] {
            assert_eq!(slices(&text, 4), None, "{text}");
        }
    }
}
