//! Of which channel the pages of a stack are, as the description of the first tells: OME-XML, ImageJ's or tifffile's.

use std::str;

use super::arrangement::{self, attribute, elements, is_of};
use super::imagej;

/// Of which channel each page is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// All are of one.
    One,
    /// One channel follows the other, each with `run` pages, and then the first again.
    Cycle { run: u64, channels: u64 },
    /// That of each page; `None` if it is not told.
    Told(Vec<Option<u32>>),
    /// There are several, and no telling of which a page is.
    Unknown,
}

impl Order {
    /// Returns what a description tells of so many pages, each of `samples` channels. The numbers of the pages that are pictures among all of the
    /// file are in `numbers`.
    pub(super) fn new(description: &[u8], numbers: &[usize], pages: u64, samples: usize) -> Self {
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
    pub(super) fn channel(&self, page: usize) -> Option<u32> {
        match self {
            Self::One => Some(0),
            Self::Cycle { run, channels } => u32::try_from(page as u64 / run % channels).ok(),
            Self::Told(channels) => channels.get(page).copied().flatten(),
            Self::Unknown => None,
        }
    }

    fn cycle(run: u64, channels: u64) -> Self {
        if channels > 1 { Self::Cycle { run, channels } } else { Self::One }
    }
}

/// Returns what ImageJ's description tells: how many channels, slices and frames there are, and which come first if that is not the channels.
fn of_imagej(description: &[u8], pages: u64) -> Order {
    let size = |name| imagej::number(description, name).unwrap_or(1).max(1);
    let (channels, slices, frames) = (size("channels"), size("slices"), size("frames"));
    let all = channels.checked_mul(slices).and_then(|planes| planes.checked_mul(frames));
    // ImageJ itself does not go by numbers that do not fit.
    if all != Some(pages) {
        return Order::One;
    }
    let order = imagej::value(description, "order").unwrap_or("czt");
    let before = order.to_ascii_lowercase();
    let before = if before.len() == 3 { before.split_once('c').map_or("", |(before, _)| before) } else { "" };
    let run = before.chars().map(|axis| if axis == 'z' { slices } else { frames }).product();
    Order::cycle(run, channels)
}

/// Returns what tifffile's axes tell: their last pages are those that follow each other, and samples of a page may be the channels.
fn of_axes(shape: &[u64], axes: &str, pages: u64, samples: usize) -> Order {
    let Some(channel) = axes.find('C').filter(|_| axes.len() == shape.len() && samples == 1) else {
        return Order::One;
    };
    let Some(page) = axes.find('Y').filter(|&page| channel < page) else { return Order::One };
    if pages_along(&shape[..page], axes) != pages || shape[channel] == 0 {
        return Order::Unknown;
    }
    Order::cycle(pages_along(&shape[channel + 1..page], &axes[channel + 1..]).max(1), shape[channel])
}

/// Returns how many pages dimensions of these sizes have. The samples of a pixel, which may lie in planes, are one.
fn pages_along(sizes: &[u64], axes: &str) -> u64 {
    let of_pages = sizes.iter().zip(axes.chars()).filter(|(_, axis)| *axis != 'S');
    of_pages.fold(1, |product, (&size, _)| product.saturating_mul(size))
}

/// What OME-XML says of the planes of one image.
#[derive(Clone, Copy)]
struct Planes {
    /// Which dimensions follow each other, beginning with the one that changes from plane to plane.
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

    /// Returns the channel of the plane with this number.
    fn channel(&self, plane: u64) -> Option<u32> {
        (plane / self.run(b'C') % self.sizes[0]).try_into().ok()
    }
}

/// Planes that follow each other, and the pages that they are, from the first on.
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

/// Returns what OME-XML tells of the pages with these numbers in the file.
fn of_ome(xml: &[u8], numbers: &[usize]) -> Order {
    let Ok(text) = str::from_utf8(xml) else { return Order::Unknown };
    let own = elements(text).find(|element| is_of(element, "OME")).and_then(|root| attribute(root, "UUID"));
    if arrangement::is_elsewhere(xml) || own.is_none() && arrangement::has_several_files(xml) {
        return Order::Unknown;
    }
    let has_several = |element: &str| attribute(element, "SizeC").is_none_or(|size| size.trim() != "1");
    if !elements(text).any(|element| is_of(element, "Pixels") && has_several(element)) {
        return Order::One;
    }
    let mut told = Told::new(numbers.last().map_or(0, |last| last + 1));
    let mut all = elements(text).peekable();
    while let Some(element) = all.next() {
        told.hear(element, all.peek().copied().unwrap_or_default(), own);
    }
    Order::Told(numbers.iter().map(|&number| told.channels[number]).collect())
}

/// What has been told of the pages of a file, while its elements are gone through.
struct Told {
    channels: Vec<Option<u32>>,
    /// The image whose elements these are.
    planes: Option<Planes>,
    /// Whether there was a channel of it.
    has_channel: bool,
    /// Whether there was an element that says where planes are.
    has_data: bool,
}

impl Told {
    fn new(pages: usize) -> Self {
        Self { channels: vec![None; pages], planes: None, has_channel: false, has_data: false }
    }

    /// Takes an element, which another follows. `own` is the identity of the file.
    fn hear(&mut self, element: &str, next: &str, own: Option<&str>) {
        if is_of(element, "Pixels") {
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

    /// Notes that samples of a page which are one channel count as several in an image's number of channels.
    fn count_samples(&mut self, channel: &str) {
        let samples = attribute(channel, "SamplesPerPixel").and_then(|samples| samples.parse().ok());
        if let Some(planes) = &mut self.planes {
            planes.sizes[0] = (planes.sizes[0] / u64::max(samples.unwrap_or(1), 1)).max(1);
        }
    }

    fn note(&mut self, block: Option<Block>) {
        let (Some(planes), Some(block)) = (self.planes, block) else { return };
        let first = usize::try_from(block.page).unwrap_or(usize::MAX).min(self.channels.len());
        let numbers = block.plane..block.plane.saturating_add(block.count);
        let pages = self.channels[first..].iter_mut().zip(numbers);
        pages.for_each(|(page, plane)| *page = planes.channel(plane));
    }
}

/// Returns whether planes are in the file of this identity, given the element that follows the one about them.
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

    fn told<const N: usize>(channels: [u32; N]) -> Vec<Option<u32>> {
        channels.map(Some).to_vec()
    }

    #[test]
    fn imagej_tells_of_channels_that_come_first_unless_it_says_otherwise() {
        let of = |rest: &str| format!("ImageJ=1.53\nimages=12\nchannels=2\nslices=3\nframes=2\n{rest}\0");
        let first = told([0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(channels(&of(""), 12), first);
        assert_eq!(channels(&of("order=ctz\n"), 12), first);
        assert_eq!(channels(&of("order=zct\n"), 12), told([0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]));
        assert_eq!(channels(&of("order=ztc\n"), 12), told([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]));
        assert_eq!(channels(&of("order=tcz\n"), 12), told([0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]));
        assert_eq!(channels(&of(""), 5), told([0; 5]), "the numbers do not fit");
        assert_eq!(channels("ImageJ=1.53\nimages=3\nslices=3\n\0", 3), told([0; 3]));
    }

    #[test]
    fn axes_tell_of_channels_between_others() {
        let of = |axes: &str, shape: &str| format!("{{\"shape\": {shape}, \"axes\": \"{axes}\"}}\0");
        assert_eq!(channels(&of("TCYX", "[2, 3, 8, 9]"), 6), told([0, 1, 2, 0, 1, 2]));
        assert_eq!(channels(&of("CZYX", "[2, 3, 8, 9]"), 6), told([0, 0, 0, 1, 1, 1]));
        assert_eq!(channels(&of("ZYX", "[6, 8, 9]"), 6), told([0; 6]));
        assert_eq!(channels(&of("TYXC", "[6, 8, 9, 2]"), 6), told([0; 6]));
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
            assert_eq!(channels(&ome(&zct, data), 6), told([0, 0, 0, 1, 1, 1]), "{data}");
        }
        let czt = format!("DimensionOrder=\"XYCZT\" {sizes}");
        assert_eq!(channels(&ome(&czt, "<TiffData/>"), 6), told([0, 1, 0, 1, 0, 1]));
        let of_samples = "DimensionOrder=\"XYCZT\" SizeC=\"6\" SizeZ=\"3\" SizeT=\"1\"";
        let data = "<Channel SamplesPerPixel=\"3\"/><Channel SamplesPerPixel=\"3\"/><TiffData/>";
        assert_eq!(channels(&ome(of_samples, data), 6), told([0, 1, 0, 1, 0, 1]));
        let blocks = "<TiffData IFD=\"0\" FirstC=\"1\" FirstZ=\"2\"/><TiffData FirstC=\"0\" IFD=\"2\" PlaneCount=\"2\"/>\
                      <TiffData IFD=\"9\" PlaneCount=\"99\"/>";
        assert_eq!(channels(&ome(&zct, blocks), 4), [Some(1), None, Some(0), Some(0)]);
        let file = |uuid: &str| format!("<UUID FileName=\"f\">urn:uuid:{uuid}</UUID></TiffData>");
        let files = ["a", "b"].map(|uuid| format!("<TiffData FirstC=\"1\" IFD=\"0\">{}", file(uuid)));
        let other = format!("<TiffData FirstC=\"0\" IFD=\"0\">{}", file("b"));
        assert_eq!(channels(&ome(&zct, &(files[0].clone() + &other)), 1), [Some(1)]);
        assert_eq!(channels(&ome(&zct, &files[1]), 1), [None]);
        assert_eq!(channels("<OME><BinaryOnly MetadataFile=\"x\"/></OME>", 2), [None, None]);
        assert_eq!(channels(&ome("SizeC=\"1\"", ""), 2), told([0, 0]));
        assert_eq!(channels(&ome("SizeC=\"2\"", ""), 2), [None, None], "no order");
    }
}
