//! Writes images of one pixel and a given size in bytes. Decoders ignore the filler after an image's end.
//!
//! Browsers recognise images by their first bytes, not by their Content-Type (WHATWG MIME Sniffing section
//! 6.1), except for SVG. So a GIF can replace a JPEG or WebP image.

use super::body::{C, HTML, SyntheticBody};

const GIF: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff\
    !\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x01\0\0\0\0\
    \x37\x6e\xf9\x24\0\0\0\nIDAT\x78\xda\x63\x60\
    \0\0\0\x02\0\x01\xe5\x27\xde\xfc\0\0\0\0IEND\xaeB`\x82";
const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" height=\"1\"/>";

/// Returns an SVG, PNG or GIF image of `len` bytes, or filler if `len` is too short for an image.
pub(super) fn image(mime: &str, len: u64) -> SyntheticBody {
    let mut body = SyntheticBody::default();
    if mime.contains("svg") {
        let fits = len >= SVG.len() as u64;
        if fits {
            body.push(SVG);
        }
        body.comment(len, if fits { HTML } else { C });
        return body;
    }
    let pixel = if mime.contains("png") && len >= PNG.len() as u64 { PNG } else { GIF };
    if len >= pixel.len() as u64 {
        body.push(pixel);
    }
    body.fill(len);
    body
}
