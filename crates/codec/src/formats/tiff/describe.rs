//! Descriptions of a picture by the programs that wrote it: ImageJ, OME-XML, GDAL.

pub(crate) mod arrangement;
pub(crate) mod dimensions;
pub(crate) mod gdal;
pub(crate) mod imagej;
