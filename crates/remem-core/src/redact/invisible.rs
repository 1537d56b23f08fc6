//! Owns the decoding of text that cannot be seen: tag characters and variation selectors. It may
//! not search; it reports where every byte came from.

use super::origin::{BREAK, DecodedSink};

/// Writes the text that invisible characters encode: tag characters encode ASCII, variation
/// selectors bytes. Each visible stretch between them becomes one break.
pub(super) fn write_invisible(layer: &[u8], sink: &mut impl DecodedSink) {
    if layer.is_ascii() || (!layer.contains(&0xF3) && !layer.contains(&0xEF)) {
        return;
    }
    let mut at = 0;
    let mut after_break = true;
    while at < layer.len() {
        let (len, byte) = match layer[at..] {
            [0xF3, 0xA0, 0x80, low @ 0xA0..=0xBF, ..] => (4, Some(low & 0x3F)),
            [0xF3, 0xA0, 0x81, low @ 0x80..=0xBE, ..] => (4, Some(0x40 | (low & 0x3F))),
            [0xEF, 0xB8, low @ 0x80..=0x8F, ..] => (3, Some(low & 0x0F)),
            [0xF3, 0xA0, block @ 0x84..=0x87, low @ 0x80..=0xBF, ..] => {
                (4, ((block & 3) << 6 | (low & 0x3F)).checked_add(16))
            }
            _ => (1, None),
        };
        if byte.is_some() || !after_break {
            sink.decoded(&[byte.unwrap_or(BREAK)], at..at + len);
        }
        after_break = byte.is_none();
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_unicode_text_is_decoded() {
        let tags: String = "secret-1"
            .chars()
            .filter_map(|c| char::from_u32(0xE0000 + c as u32))
            .collect();
        let selectors: String = "secret-1"
            .bytes()
            .filter_map(|byte| char::from_u32(0xE0100 + u32::from(byte) - 16))
            .collect();
        for hidden in [tags, selectors] {
            let mut bytes = Vec::new();
            write_invisible(format!("ab{hidden}cd").as_bytes(), &mut bytes);
            assert_eq!(bytes, [b"secret-1", &[BREAK][..]].concat());
        }
        let mut bytes = Vec::new();
        write_invisible("日本語 ｔext".as_bytes(), &mut bytes);
        assert_eq!(bytes, b"");
    }
}
